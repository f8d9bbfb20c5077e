"""`teia node` as it was before row changes: it reads and writes statements alone, and announces no newer format."""

from __future__ import annotations

from teia.cli.main import run
from teia.frontier.cell import journal

if __name__ == "__main__":
    journal.NEWEST_FORMAT = journal.STATEMENTS
    run()
