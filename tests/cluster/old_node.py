"""`teia node` of an earlier version: it reads, writes and announces no newer format of changes than OLD_FORMAT."""

from __future__ import annotations

import os

from teia.cli.main import run
from teia.frontier.cell import journal

if __name__ == "__main__":
    journal.NEWEST_FORMAT = int(os.environ["OLD_FORMAT"])
    run()
