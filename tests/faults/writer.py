"""A process that appends records to an archive: `python -m tests.faults.writer FOLDER PAGES`.

It commits as the crawler does: records are synced first, then the position that they reach is stored whole. A start
after a death goes on from the position.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from teia.durable import replacing
from teia.store.archive import Position
from tests.store.answers import page, writer

GROUP = 256
"""Pages of a commit, as many as the crawler's."""

FILE_BYTES = 32 << 20


def committed(folder: Path) -> tuple[Position | None, int]:
    """Return the last committed position, and the number of pages up to it."""
    file = folder / "position"
    if not file.exists():
        return None, 0
    stored = json.loads(file.read_text("utf-8"))
    return Position(**stored["position"]), stored["pages"]


def write(folder: Path, pages: int) -> None:
    start, number = committed(folder)
    with writer(folder / "archive", start, FILE_BYTES) as archive:
        while number < pages:
            until = min(pages, number + GROUP)
            for each in range(number, until):
                archive.append(page(each))
            archive.flush_and_sync()
            number = until
            with replacing(folder / "position") as file:
                file.write(json.dumps({"position": asdict(archive.position), "pages": number}).encode())


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]))
