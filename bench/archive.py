"""Cost of the archive: making records, appending and syncing them, reading and indexing them again.

    python bench/archive.py [--pages N] [--json]

The page is 22 kB of text with links, like the one measured in docs/decisions/0008-archive.md. Figures are processor
time per page, best of three runs: other work on the machine can only add to it.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from teia.clock import WallClock
from teia.records import Fetched
from teia.store.archive import ArchiveWriter, archive_files
from teia.store.audit import audit_archive
from teia.store.cdxj import write_index
from teia.store.reader import ArchiveReader
from teia.store.warc import page_members

HEAD = (
    b"HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\nContent-Type: text/html; "
    b'charset=utf-8\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\nETag: "5f3a"\r\n\r\n'
)
REQUEST = (
    b"GET /a/b.html HTTP/1.1\r\nHost: www.a.test\r\nUser-Agent: teia\r\nAccept: */*\r\nAccept-Encoding: gzip\r\n\r\n"
)
METADATA = {"outcome": "200", "language": "pt", "fetchTimeMs": "120"}
GROUP = 256


def body_of(chance: random.Random, size: int = 22_000) -> bytes:
    words = ["".join(chance.choices("abcdefghijlmnopqrstuvz", k=chance.randint(2, 9))) for _ in range(1_500)]
    parts: list[str] = []
    while sum(map(len, parts)) < size:
        sentence = " ".join(chance.choices(words, k=30))
        parts.append(
            f'<p><a href="/pagina/{chance.randrange(10**5)}.html">{chance.choice(words)}</a> {sentence}.</p>\n'
        )
    return "".join(parts).encode()[:size]


def us_per_page(work: Callable[[], object], pages: int) -> float:
    best = float("inf")
    for _ in range(3):
        before = time.process_time()
        work()
        best = min(best, time.process_time() - before)
    return round(best / pages * 1e6, 1)


def append_all(folder: Path, answers: list[Fetched], body: bytes) -> tuple[float, float]:
    """Append in groups of 256 with a sync after each; return the wall seconds for all, and for one commit."""
    members = [page_members(answer, body, METADATA) for answer in answers]
    before = time.perf_counter()
    with ArchiveWriter(folder, "bench", 0, 1 << 30, WallClock(), None) as archive:
        for number, each in enumerate(members, 1):
            archive.append(each)
            if number % GROUP == 0:
                archive.flush_and_sync()
        archive.flush_and_sync()
    seconds = time.perf_counter() - before
    return seconds, seconds / (len(members) / GROUP)


def measure(pages: int, folder: Path) -> dict[str, float]:
    body = body_of(random.Random(1))
    first = Fetched("http://www.a.test/a/b.html", "200", 200, 1.7e9, 1.7e9 + 0.12, "127.77.0.1", REQUEST, HEAD)
    answers = [replace(first, url=f"http://www.a.test/{n}.html", started_s=1.7e9 + n) for n in range(pages)]
    alone = [replace(answer, request_head=b"") for answer in answers]
    rows: dict[str, float] = {
        "response_us": us_per_page(lambda: [page_members(answer, body, {}) for answer in alone], pages),
        "request_response_metadata_us": us_per_page(
            lambda: [page_members(answer, body, METADATA) for answer in answers], pages
        ),
    }
    seconds, commit_s = append_all(folder, answers, body)
    (path,) = archive_files(folder)
    rows["bytes_per_page"] = round(path.stat().st_size / pages)
    rows["append_and_sync_pages_per_s"] = round(pages / seconds)
    rows["commit_of_256_ms"] = round(commit_s * 1e3, 1)
    rows["read_us"] = us_per_page(lambda: sum(1 for _ in ArchiveReader(folder).records()), pages)
    rows["index_us"] = us_per_page(lambda: write_index(path), pages)
    rows["audit_us"] = us_per_page(lambda: audit_archive(folder), pages)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=2_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(options.pages, Path(folder))
    if options.json:
        print(json.dumps(rows))
        return
    for name, value in rows.items():
        print(f"{name:32} {value:>10,}")


if __name__ == "__main__":
    main()
