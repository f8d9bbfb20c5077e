"""The frontier beside the archive and the log: whatever was changed in one of them is named."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from teia.cli.data.audit import app
from teia.clock import WallClock
from teia.collections.settings import saved
from teia.crawler.start import open_crawls
from teia.errors import CorruptFile
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.queue.ledger import Ledger
from teia.store.root import Root, open_root
from teia.transfer.audits import AuditKind, audit
from teia.transfer.frontier_audit import accept, audit_frontier
from tests.crawler.offline import offline_crawl

WEB = {
    "http://a.test/": "".join(f'<a href="/{number}">{number}</a>' for number in range(12)),
    **{f"http://a.test/{number}": f"<p>page {number}" for number in range(12)},
}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """A crawl that is over, and has some URLs left in its queue."""
    with offline_crawl(WEB, tmp_path, "http://a.test/") as offline:
        offline.run(8)
    return open_root(tmp_path / "data")


def frontier(root: Root) -> Path:
    """The one with the host's URLs."""
    for cell in root.collection("main").cells():
        with closing(FrontierCell(cell.frontier, read_only=True)) as opened:
            if opened.known:
                return cell.frontier
    raise AssertionError("no URL is known")


@pytest.mark.parametrize("kind", list(AuditKind))
def test_every_audit_reports_a_flipped_byte_of_the_frontier(root: Root, kind: AuditKind) -> None:
    """Both audits said "0 violations"."""
    before = audit(root, "main", kind, WallClock())
    assert "checksum" not in str(before.details)
    path, chance = frontier(root), random.Random(24)
    data = path.read_bytes()
    for _ in range(10):
        at = chance.randrange(100, len(data))
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :])
        found = audit(root, "main", kind, WallClock())
        assert found.violations >= 1
        assert "does not match its checksum" in found.details[0]


def test_a_crawl_of_a_damaged_frontier_does_not_begin(root: Root) -> None:
    path = frontier(root)
    data = bytearray(path.read_bytes())
    data[-9] ^= 4
    path.write_bytes(data)
    config = saved(root, "main").config
    with root.locked(), ledger_of(root) as ledger, pytest.raises(CorruptFile, match="checksums"):
        open_crawls(root, [config], ledger, WallClock()).__enter__()
    with root.locked():
        accept(root, "main")
    with root.locked(), ledger_of(root) as ledger, open_crawls(root, [config], ledger, WallClock()) as (crawl,):
        assert crawl.committer.cells


@contextmanager
def ledger_of(root: Root) -> Iterator[Ledger]:
    ledger = Ledger(root.path / "ledger.sqlite")
    try:
        yield ledger
    finally:
        ledger.close(clean=True, now_s=0.0)


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("UPDATE pages SET offset = offset + 1 WHERE key = (SELECT min(key) FROM pages)", "cannot be read"),
        ("UPDATE pages SET length = length + 1 WHERE key = (SELECT min(key) FROM pages)", "bytes in the archive"),
        (
            "UPDATE pages SET payload_digest = 'sha256:00' WHERE key = (SELECT min(key) FROM pages)",
            "another digest in the archive",
        ),
        ("UPDATE urls SET tail = '/other' WHERE key = (SELECT min(key) FROM urls)", "under the key of another URL"),
        ("DELETE FROM queue WHERE key = (SELECT min(key) FROM queue)", "no place in the queue"),
        ("UPDATE meta SET value = value + 1 WHERE name = 'known'", "were counted"),
        ("UPDATE visits SET outcome = '404' WHERE key = (SELECT min(key) FROM visits)", "in the log with 200"),
        ("UPDATE visits SET offset = 7 WHERE key = (SELECT min(key) FROM visits)", "another record than the log"),
    ],
)
def test_a_row_that_was_changed_is_named(root: Root, sql: str, why: str) -> None:
    assert audit_frontier(root, "main").details == ()
    with closing(sqlite3.connect(frontier(root), isolation_level=None)) as db:
        db.execute("DROP TRIGGER IF EXISTS page_changed")
        db.execute(sql)
    found = audit_frontier(root, "main")
    assert any(why in line for line in found.details), found.details
    assert found.violations >= 1


def test_a_crawl_that_commits_during_an_audit_is_no_contradiction(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    read = FrontierCell.row
    with closing(sqlite3.connect(frontier(root), isolation_level=None)) as db:

        def read_and_commit(cell: FrontierCell, sql: str, *values: object) -> object:
            found = read(cell, sql, *values)
            if "count(*)" in sql and cell.path == frontier_path:
                db.execute("BEGIN")
                db.execute("DELETE FROM urls WHERE key = (SELECT max(key) FROM urls)")
                db.execute("UPDATE meta SET value = value - 1 WHERE name = 'known'")
                db.execute("COMMIT")
            return found

        frontier_path = frontier(root)
        monkeypatch.setattr(FrontierCell, "row", read_and_commit)
        assert not [line for line in audit_frontier(root, "main").details if "URLs are known" in line]


def test_the_command_reports_damage_and_accepts_it_when_told(root: Root) -> None:
    path = frontier(root)
    data = bytearray(path.read_bytes())
    data[-9] ^= 4
    path.write_bytes(data)
    where = ["--data", str(root.path), "--json"]
    found = CliRunner().invoke(app, ["frontier", *where])
    assert (found.exit_code, json.loads(found.stdout)["violations"] > 0) == (1, True)
    accepted = CliRunner().invoke(app, ["frontier", "--accept", *where])
    assert "does not match its checksum" not in accepted.stdout
