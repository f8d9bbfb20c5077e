"""The table of stored bodies: what it suggests, and what its damage costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from teia.store import seen_bodies
from teia.store.seen_bodies import SeenBodies, SeenBody, checksum_of

FIRST, LATER = SeenBody("a.warc.gz", 10, 20, b"parsed"), SeenBody("b.warc.gz", 30, 40, b"again")


def test_equal_bodies_have_one_checksum_in_a_scope() -> None:
    assert checksum_of(b"body") == checksum_of(b"body")
    assert len({checksum_of(b"body", scope) for scope in range(1_024)}) == 1_024
    assert checksum_of(b"body") != checksum_of(b"ydob")
    assert 0 <= checksum_of(b"\xff" * 100, 1_023) < 1 << 63, "SQLite stores it as a signed number"


def test_a_body_is_found_by_its_checksum_and_the_last_record_counts(tmp_path: Path) -> None:
    bodies = SeenBodies(tmp_path / "seen.sqlite")
    assert bodies.find(7) is None
    bodies.add([(7, FIRST), (8, FIRST)])
    bodies.add([(7, LATER)])
    assert (bodies.find(7), bodies.find(8), bodies.find(9)) == (LATER, FIRST, None)
    bodies.close()
    again = SeenBodies(tmp_path / "seen.sqlite")
    assert again.find(7) == LATER
    again.close()


def test_the_file_is_not_asked_for_a_new_body(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look-up in the file for every page took a tenth of the speed of a crawl with its archive."""
    stored, other = checksum_of(b"stored"), checksum_of(b"other")
    bodies = SeenBodies(tmp_path / "seen.sqlite")
    assert bodies.find(stored) is None
    bodies.add([(stored, FIRST)])
    bodies.close()
    for most in (seen_bodies.MAX_FILTERED, 0):
        monkeypatch.setattr(seen_bodies, "MAX_FILTERED", most)
        again = SeenBodies(tmp_path / "seen.sqlite")
        assert again.find(stored) == FIRST
        asked: list[str] = []
        assert again._db is not None
        again._db.set_trace_callback(asked.append)
        assert again.find(other) is None
        assert bool(asked) == (most == 0), "a large file has no filter"
        again.close()


def test_a_damaged_file_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "seen.sqlite"
    path.write_bytes(b"no database" * 1_000)
    bodies = SeenBodies(path)
    assert bodies.find(7) is None
    bodies.add([(7, FIRST)])
    assert bodies.find(7) == FIRST
    bodies.close()
