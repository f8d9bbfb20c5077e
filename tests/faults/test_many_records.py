"""Records written by a process that is killed again and again are all there, whole, and once (figure 10)."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator  # type: ignore[import-untyped]  # it ships no types

from teia.store.archive import archive_files, index_path
from teia.store.audit import audit_archive
from teia.store.cdxj import write_index
from tests.conftest import ROOT
from tests.waiting import until

from .writer import GROUP, committed

SEED = int(os.environ.get("FAULT_SEED", "15"))
RECORDS_OF_A_PAGE = 3
"""Request, response, metadata."""


def write_under_kills(folder: Path, pages: int, kills: int) -> int:
    """Write pages by a process that is killed, at moments by chance, and begun again; return the number of kills."""
    chance, done = random.Random(SEED), 0
    folder.mkdir()
    moments = sorted(chance.sample(range(1, pages // GROUP), kills))
    for moment in [*moments, None]:
        process = subprocess.Popen([sys.executable, "-m", "tests.faults.writer", str(folder), str(pages)], cwd=ROOT)
        try:
            if moment is None:
                assert process.wait(3_000) == 0
                break
            until(lambda: committed(folder)[1] >= moment * GROUP or process.poll() is not None, within_s=600)  # noqa: B023
            done += process.poll() is None
        finally:
            process.kill()
            process.wait()
    return done


def read_by_warcio(folder: Path) -> Counter[str]:
    """Count the records by their type, with every digest checked; a page that is there twice is an error."""
    kinds, pages = Counter[str](), set[str]()
    for path in archive_files(folder):
        with path.open("rb") as file:
            for record in ArchiveIterator(file, check_digests="raise"):
                record.content_stream().read()
                kinds[record.rec_type] += 1
                if record.rec_type == "response":
                    url = record.rec_headers.get_header("WARC-Target-URI")
                    assert url not in pages
                    pages.add(url)
    return kinds


def check(folder: Path, pages: int, kills: int) -> int:
    """Write, and check what other people's reader and ours find; return the number of records."""
    assert write_under_kills(folder, pages, kills) == kills
    position, written = committed(folder)
    assert written == pages
    kinds = read_by_warcio(folder / "archive")
    assert {kind: kinds[kind] for kind in ("request", "response", "metadata")} == dict.fromkeys(
        ("request", "response", "metadata"), pages
    )
    audit = audit_archive(folder / "archive", position)
    assert audit.violations == 0, audit.details
    for path in archive_files(folder / "archive"):
        first = write_index(path).read_bytes()
        index_path(path).unlink()
        assert write_index(path).read_bytes() == first
    return kinds.total()


@pytest.mark.heavy
def test_records_written_under_kills_are_all_there_and_once(tmp_path: Path) -> None:
    assert check(tmp_path / "cell", 12 * GROUP, 3) >= 12 * GROUP * RECORDS_OF_A_PAGE


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_million_records_written_under_kills_are_all_there_and_once(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Figure 10. `RECORDS` gives another number."""
    wanted = int(os.environ.get("RECORDS", "1000000"))
    records = check(tmp_path / "cell", wanted // RECORDS_OF_A_PAGE + 1, 40)
    assert records >= wanted
    said = "records under 40 kills: all readable by warcio, all digests match, each once; CDXJ made anew is identical"
    record_property("figure 10", f"{records} {said}")
