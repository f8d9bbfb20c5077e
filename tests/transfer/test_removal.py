"""A page that must go leaves nothing behind, and what others need of the archive stays right."""

from __future__ import annotations

import asyncio
import gzip
import json
import shutil
from contextlib import closing
from pathlib import Path
from zipfile import ZipFile

import pytest
from typer.testing import CliRunner

from teia.cli.main import application
from teia.clock import VirtualClock, WallClock
from teia.collections.settings import saved
from teia.crawler.lookup import Lookup
from teia.crawler.upkeep.closed_files import sign_all
from teia.errors import ClusterError, UsageError
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.connection import CLUSTER
from teia.indexer.open_search import CollectionSearch
from teia.indexer.process import CollectionFollower
from teia.notify.subscriptions import list_subscriptions, open_store, subscribe
from teia.sqlite import transaction
from teia.store.root import Root, open_root
from teia.store.seen_bodies import SeenBodies, SeenBody
from teia.transfer.export_wacz import export_wacz
from teia.transfer.links_audit import audit_links
from teia.transfer.manifest_audit import audit_manifest
from teia.transfer.read_all import audit_archives, known_urls
from teia.transfer.removal import LOG_FILE, RemovalResult, remove, rule_of
from teia.web.access.accounts import Accounts
from tests.crawler.offline import NOW_S, offline_crawl
from tests.transfer.kills import steps_until
from tests.web.conftest import QUICK

HOME, BAD, LONGER, SITE, BELOW = (
    "http://a.test/",
    "http://a.test/bad",
    "http://a.test/bad-but-longer",
    "http://gone.test/",
    "http://www.gone.test/x",
)
TEXTS = {
    HOME: f'home <a href="{BAD}">b</a><a href="{LONGER}">l</a><a href="{SITE}">s</a><a href="{BELOW}">x</a>',
    BAD: f'slander about somebody <a href="{HOME}">h</a>',
    LONGER: "harmless words",
    SITE: "unwanted words",
    BELOW: "more unwanted words",
}


@pytest.fixture
def root(tmp_path: Path) -> Root:
    with offline_crawl(TEXTS, tmp_path, HOME) as crawl:
        crawl.run()
        crawl.revisit_only(BAD)
    opened = open_root(tmp_path / "data")

    async def index() -> None:
        following = CollectionFollower(opened, "main", WallClock())
        await following.finish()
        await following.close()

    asyncio.run(index())
    return opened


def archive_text(root: Root) -> bytes:
    return b"".join(gzip.decompress(path.read_bytes()) for path in root.path.rglob("*.warc.gz"))


def hits(root: Root, query: str) -> list[str]:
    with closing(CollectionSearch(root, ["main"], WallClock())) as search:
        return [hit.url for hit in search.search(query, 10).hits]


@pytest.mark.heavy
def test_a_page_is_gone_from_archive_history_index_and_subscriptions(root: Root) -> None:
    subscribe(root, "main", WallClock(), url=BAD)
    watched = subscribe(root, "main", WallClock(), query="words").subscription
    with open_store(root.collection("main")) as store:
        search = store.get(watched.id)
        assert search is not None
        with transaction(store.db):
            for number, url in enumerate((BAD, LONGER)):
                store.queue_notice(search, f"n{number}", NOW_S, json.dumps({"pages": [{"url": url}]}).encode())
    assert hits(root, "slander") == [BAD]
    done = remove(root, "main", [BAD], "court order", WallClock(), dry_run=False)
    assert done.is_proven
    assert (done.urls, done.subscriptions, done.notices, done.left_records) == (1, 1, 1, 0)
    assert b"slander" not in archive_text(root)
    assert hits(root, "slander") == []
    assert hits(root, "harmless") == [LONGER]
    with Lookup(root, "main") as lookup:
        entry = lookup.find(BAD)
        assert entry is not None
        assert (entry.state, lookup.visits(entry)) == ("excluded", [])
        assert entry.page is not None
        assert (entry.page.file, entry.page.title, entry.page.digest) == ("", "", b"")
        assert lookup.capture(LONGER).payload == TEXTS[LONGER].encode()
    assert [each.what for each in list_subscriptions(root.collection("main"))] == ["words"]
    assert audit_archives(root, "main").violations == 0
    assert audit_links(root, "main").violations == 0
    assert rule_of(BAD) in saved(root, "main").config.scope.exclude
    (line,) = (root.collection("main").path / LOG_FILE).read_text().splitlines()
    assert json.loads(line)["reason"] == "court order"


@pytest.mark.heavy
def test_a_site_goes_with_all_names_below_it_and_is_not_fetched_again(root: Root, tmp_path: Path) -> None:
    done = remove(root, "main", ["gone.test"], "owner's wish", WallClock(), dry_run=False)
    assert (done.urls, done.is_proven) == (2, True)
    assert b"unwanted" not in archive_text(root)
    states = {each["url"]: each["state"] for each in known_urls(root, "main")}
    assert states == {HOME: "done", BAD: "done", LONGER: "done", SITE: "excluded", BELOW: "excluded"}
    with offline_crawl(TEXTS, tmp_path, HOME) as crawl:
        crawl.revisit(HOME)
        assert crawl.taken == [HOME]
    again = remove(root, "main", ["gone.test"], "again", WallClock(), dry_run=False)
    assert (again.records, again.is_proven) == (0, True)


@pytest.mark.heavy
def test_no_file_of_the_folder_has_the_words_of_a_removed_page(tmp_path: Path) -> None:
    """The title of a page is also with the body that other pages may repeat (content_seen.py)."""
    web = {HOME: f'home <a href="{BAD}">b</a>', BAD: "<title>Xqslander</title><p>Xqslander about somebody"}
    with offline_crawl(web, tmp_path, HOME) as crawl:
        crawl.run()
    root = open_root(tmp_path / "data")
    with Lookup(root, "main") as lookup:
        entry = lookup.find(BAD)
        assert entry is not None
        (visit,) = lookup.visits(entry)
    with closing(SeenBodies(root.collection("main").seen)) as bodies:
        assert bodies.find(1) is None
        bodies.add([(1, SeenBody(visit.file, visit.offset, visit.length, b"Xqslander")), (2, SeenBody("f", 1, 1, b""))])
    assert "seen.sqlite" in files_with(root, b"Xqslander")
    assert remove(root, "main", [BAD], "court order", WallClock(), dry_run=False).is_proven
    assert files_with(root, b"Xqslander") == []
    with closing(SeenBodies(root.collection("main").seen)) as bodies:
        assert bodies.find(2) is not None, "other bodies stay"
    with (tmp_path / "a.wacz").open("wb") as file:
        export_wacz(root, "main", file, NOW_S)
    with ZipFile(tmp_path / "a.wacz") as package:
        assert BAD.encode() not in package.read("pages/pages.jsonl"), "a page without a capture is not listed"


def files_with(root: Root, word: bytes) -> list[str]:
    files = [path for path in root.path.rglob("*") if path.is_file()]
    return [path.name for path in files if word.lower() in contents(path).lower()]


def contents(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def test_a_dry_run_changes_nothing(root: Root) -> None:
    before = archive_text(root)
    done = remove(root, "main", [f"{BAD}*"], "", VirtualClock(NOW_S), dry_run=True)
    assert (done.urls, done.is_dry_run) == (2, True)
    assert done.records >= 6
    assert archive_text(root) == before
    assert saved(root, "main").config.scope.exclude == ()
    assert not (root.collection("main").path / LOG_FILE).exists()


@pytest.mark.heavy
def test_a_page_that_shares_a_removed_body_is_fetched_again(tmp_path: Path) -> None:
    """The second page has a revisit record that refers to the first one's body."""
    same = "the very same words " * 40
    web = {HOME: f'<a href="{SITE}">s</a>{same}', SITE: "other"}
    with offline_crawl(web, tmp_path, HOME, SITE, collection__cells=1) as crawl:
        crawl.run()
    root = open_root(tmp_path / "data")
    # As the content-seen test stores it: the row of the second page names the first one's record.
    with closing(FrontierCell(root.collection("main").cells()[0].frontier)) as cell, cell.transaction():
        sql = "SELECT p.file, p.offset, p.length FROM pages AS p JOIN hosts USING (host_id) WHERE name = 'a.test'"
        cell.db.execute(
            "UPDATE pages SET file = ?, offset = ?, length = ?"
            " WHERE host_id = (SELECT host_id FROM hosts WHERE name = 'gone.test')",
            cell.row(sql),
        )
    done = remove(root, "main", [HOME], "", WallClock(), dry_run=False)
    assert (done.urls, done.pages_again, done.is_proven) == (1, 1, True)
    assert {each["url"]: each["state"] for each in known_urls(root, "main")} == {HOME: "excluded", SITE: "queued"}


@pytest.mark.heavy
def test_the_command_proves_it_and_writes_the_log_of_changes(root: Root) -> None:
    Accounts(root.path / "web.sqlite", WallClock(), QUICK).close()
    words = ["remove", LONGER, "--reason", "asked to", "--data", str(root.path), "--json"]
    done = CliRunner().invoke(application(["remove"]), words)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout.splitlines()[-1])["is_proven"] is True
    with closing(Accounts(root.path / "web.sqlite", WallClock(), QUICK)) as accounts:
        ((_, line),) = accounts.logged_actions(5)
    assert (line.detail["targets"], line.detail["reason"]) == ([LONGER], "asked to")


def take_out(root: Root) -> RemovalResult:
    return remove(root, "main", [BAD, "gone.test"], "", VirtualClock(NOW_S + 1e6), dry_run=False)


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the bad pages, signed."""
    folder = tmp_path_factory.mktemp("removal")
    with offline_crawl(TEXTS, folder, HOME, index__enabled=False) as crawl:
        crawl.run()
    root = open_root(folder / "data")
    sign_all(root.collection("main"), VirtualClock(NOW_S))
    assert audit_manifest(root, "main", WallClock()).violations == 0
    return root.path


def total_steps(before: Path, data: Path) -> int:
    shutil.copytree(before, data)
    return steps_until(0, lambda: take_out(open_root(data)))


def kill_and_check(before: Path, data: Path, step: int) -> None:
    """kill -9 before a step: audits are clean, and the next try removes what is left, and nothing else."""
    shutil.rmtree(data)
    shutil.copytree(before, data)
    root = open_root(data)
    assert steps_until(step, lambda: take_out(root)) == step
    assert audit_archives(root, "main").violations == 0, step
    assert audit_manifest(root, "main", WallClock()).details == (), step
    assert take_out(root).is_proven, step
    assert b"slander" not in archive_text(root), step
    assert audit_archives(root, "main").violations == 0, step
    assert audit_manifest(root, "main", WallClock()).details == (), step
    assert audit_links(root, "main").violations == 0, step
    with Lookup(root, "main") as lookup:
        assert lookup.capture(LONGER).payload == TEXTS[LONGER].encode(), step


@pytest.mark.heavy
def test_a_kill_leaves_nothing_that_the_next_try_does_not_remove(signed: Path, tmp_path: Path) -> None:
    total = total_steps(signed, tmp_path / "data")
    assert total > 50
    for step in range(total // 5, total, total // 5):
        kill_and_check(signed, tmp_path / "data", step)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_kill_at_two_hundred_points_leaves_nothing_that_the_next_try_does_not_remove(
    signed: Path, tmp_path: Path
) -> None:
    total = total_steps(signed, tmp_path / "data")
    assert total > 200
    for number in range(200):
        kill_and_check(signed, tmp_path / "data", 1 + number * total // 200)


def test_in_a_cluster_a_node_must_run_in_the_folder(root: Root) -> None:
    for folder in root.collection("main").cells():
        with closing(FrontierCell(folder.frontier)) as cell, cell.transaction():
            cell.set_meta({CLUSTER: "some cluster"})
    with pytest.raises(ClusterError, match="no node is running"):
        remove(root, "main", [BAD], "", WallClock(), dry_run=False)
    assert saved(root, "main").config.scope.exclude == ()


@pytest.mark.parametrize("word", ["a.test/bad", "", "http://", "mailto:a@a.test/"])
def test_other_words_are_refused(root: Root, word: str) -> None:
    with pytest.raises(UsageError):
        remove(root, "main", [word], "", WallClock(), dry_run=False)
