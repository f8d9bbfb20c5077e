"""Files of earlier versions, with a table for each kind of request, keep what was pending in them."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from teia.collections.commands import CommandTable
from teia.collections.control_file import ControlFile, GiveCommand, Inbox, RunBulkAction
from teia.crawler.lookup import Lookup
from teia.records import Command
from teia.sqlite import copy_before
from teia.store.root import Root, open_root
from tests.crawler.webs import ScriptedWeb, crawl_web, html, robots
from tests.waiting import until

HOST = "m.test"
LINKS = [f"/{'agenda' if number % 2 else 'lei'}/{number}" for number in range(12)]
PAGES = {"/": html(*LINKS), "/robots.txt": robots(""), **{link: html(text=f"Page {link}") for link in LINKS}}
OLD_TABLES = """
CREATE TABLE commands (
    id INTEGER PRIMARY KEY AUTOINCREMENT, collection TEXT NOT NULL, command TEXT NOT NULL,
    asked_s REAL NOT NULL, done_s REAL
);
CREATE TABLE changes (
    id INTEGER PRIMARY KEY AUTOINCREMENT, collection TEXT NOT NULL, edits TEXT NOT NULL, asked_s REAL NOT NULL,
    answer TEXT
);
CREATE TABLE wishes (
    id INTEGER PRIMARY KEY AUTOINCREMENT, collection TEXT NOT NULL, url TEXT NOT NULL, asked_s REAL NOT NULL,
    UNIQUE (collection, url)
);
CREATE TABLE deeds (
    id INTEGER PRIMARY KEY AUTOINCREMENT, collection TEXT NOT NULL, mark TEXT NOT NULL, chosen TEXT NOT NULL,
    who TEXT NOT NULL, asked_s REAL NOT NULL, number INTEGER NOT NULL DEFAULT 0, done_s REAL
);
CREATE TABLE rereads (
    collection TEXT NOT NULL, origin TEXT NOT NULL, asked_s REAL NOT NULL, PRIMARY KEY (collection, origin)
) WITHOUT ROWID;
CREATE TABLE orders (
    collection TEXT PRIMARY KEY, wanted_s REAL, paused_s REAL, stopped_s REAL, removal TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
"""


def fill_old_tables(path: Path, url: str, command: str) -> None:
    """Write what an earlier version would have: a pending request in each table, and one that is done."""
    now_s, origin = time.time(), url.removesuffix("/")
    chosen = {"deed": "drop", "host": "", "contains": "/agenda/", "source": "", "depth": None, "outcome": ""}
    edits = json.dumps([["scope.exclude", "+=", "regex:/lei/1.$"], ["courtesy.delay_s", "=", 0.02]])
    with closing(sqlite3.connect(path)) as db, db:
        db.executescript(OLD_TABLES)
        sql = "INSERT INTO commands (collection, command, asked_s, done_s) VALUES ('main', ?, ?, ?)"
        db.executemany(sql, [("stop", now_s, now_s), (command, now_s, None)])
        sql = "INSERT INTO changes (collection, edits, asked_s, answer) VALUES ('main', ?, ?, ?)"
        db.executemany(sql, [("[]", now_s, "{}"), (edits, now_s, None)])
        db.execute("INSERT INTO wishes (collection, url, asked_s) VALUES ('main', ?, ?)", (url, now_s))
        sql = "INSERT INTO deeds (collection, mark, chosen, who, asked_s, number, done_s)"
        row = (json.dumps(chosen), "ana", now_s)
        db.execute(f"{sql} VALUES ('main', 'aa', ?, ?, ?, 5, 9.0)", row)
        db.execute(f"{sql} VALUES ('main', 'bb', ?, ?, ?, 0, NULL)", row)
        db.execute("INSERT INTO rereads VALUES ('main', ?, ?)", (origin, now_s))
        db.execute("INSERT INTO orders VALUES ('main', NULL, 7.0, NULL, '')")


def tables(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as db:
        return {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def test_whatever_an_earlier_version_left_pending_still_happens(tmp_path: Path) -> None:
    """The process that holds the folder's lock migrates the file when it opens it; here that is a crawl."""

    def meanwhile(root: Root) -> None:
        def home() -> str:
            with Lookup(root, "main") as lookup:
                urls = [url for url in lookup.urls_of_host(HOST, 100) if url.endswith("/")]
                return urls[0] if urls and (found := lookup.find(urls[0])) and found.page is not None else ""

        fill_old_tables(root.control, until(home, "the home page is visited"), "pause")
        ControlFile(root.control).close()
        with Inbox(root.control) as inbox:
            until(lambda: (run := inbox.running_crawl("main")) and run.account.get("state") == "paused", "the command")
            inbox.send("main", GiveCommand(Command.RESUME), time.time())
            until(lambda: not inbox.all_pending(), "all are done", state=inbox.all_pending)

    first = crawl_web(ScriptedWeb({HOST: PAGES}), tmp_path, f"{HOST}/", meanwhile=meanwhile, courtesy__delay_s=0.3)
    assert first.crawls[0].config.courtesy.delay_s == 0.02, "the change"
    asked = first.requested()
    assert asked.count(f"{HOST}/") == 2, "the visit"
    assert asked.count(f"{HOST}/robots.txt") >= 2, "robots.txt"
    with Inbox(open_root(first.data).control) as inbox:
        newer, older = inbox.recent("main", RunBulkAction, 9)
    assert (older.body.mark, older.who, older.progress, older.done_s) == ("aa", "ana", 5, 9.0)
    assert (newer.body.mark, newer.done_s is not None) == ("bb", True), "the bulk action"
    assert newer.progress + sum("/agenda/" in each for each in set(asked)) >= 6
    assert newer.progress > 0


def test_requests_that_wait_for_a_crawl_survive_the_migration_before_it(tmp_path: Path) -> None:
    fill_old_tables(tmp_path / "control.sqlite", "http://a.test/", "pause")
    with CommandTable(tmp_path / "control.sqlite") as table:
        assert table.get("main").paused_s == 7.0, "the standing command"
    with Inbox(tmp_path / "control.sqlite") as inbox:
        kinds = [each.body.KIND for each in inbox.all_pending()]
    assert kinds == ["command", "change", "visit", "bulk", "robots"]


def test_a_file_that_lacks_some_of_the_old_tables_is_migrated_too(tmp_path: Path) -> None:
    path = tmp_path / "control.sqlite"
    with closing(sqlite3.connect(path)) as db, db:
        db.executescript(OLD_TABLES[: OLD_TABLES.index("CREATE TABLE deeds")])
        db.execute("INSERT INTO wishes (collection, url, asked_s) VALUES ('main', 'http://a.test/', 1.0)")
    for _ in range(2):
        with Inbox(path) as inbox:
            assert [each.body.KIND for each in inbox.all_pending()] == ["visit"]
    assert "wishes" in tables(copy_before(path, 0)), "a copy of the file as it was"
    assert tables(path) - {"sqlite_sequence"} == {
        "requests", "runs", "series", "dismissed", "standing_commands", "scheduled_runs", "crawl_runs"
    }  # fmt: skip


def test_the_old_tables_are_left_to_a_crawler_of_an_older_version_that_still_runs(tmp_path: Path) -> None:
    root = open_root(tmp_path / "data", create=True)
    fill_old_tables(root.control, "http://a.test/", "pause")
    before = tables(root.control)
    hold = (
        "import sys; from pathlib import Path; from teia.store.root import open_root\n"
        "with open_root(Path(sys.argv[1])).locked(): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(root.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as older:
        assert older.stdout is not None
        assert older.stdout.readline() == b"held\n"
        with Inbox(root.control) as inbox:
            assert inbox.all_pending() == []
        assert before < tables(root.control)
        older.communicate()
    with root.locked(), Inbox(root.control) as inbox:
        assert len(inbox.all_pending()) == 5, "its successor migrates them, with the lock in its own hands"
    assert "orders" not in tables(root.control)


def test_a_command_that_an_older_version_recorded_in_between_replaces_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "control.sqlite"
    with CommandTable(path) as table:
        table.record("main", Command.STOP, 3.0)
    fill_old_tables(path, "http://a.test/", "pause")  # a pause at 7.0
    with CommandTable(path) as table:
        assert (table.get("main").paused_s, table.get("main").stopped_s) == (7.0, None)
