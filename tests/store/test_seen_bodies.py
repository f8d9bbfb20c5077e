"""The table of stored bodies: what it suggests, and what its damage costs."""

from __future__ import annotations

from pathlib import Path

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


def test_a_damaged_file_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "seen.sqlite"
    path.write_bytes(b"no database" * 1_000)
    bodies = SeenBodies(path)
    assert bodies.find(7) is None
    bodies.add([(7, FIRST)])
    assert bodies.find(7) == FIRST
    bodies.close()
