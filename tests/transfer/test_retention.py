"""Captures go by the rules of the settings, never one that is needed, and a crash leaves nothing half removed."""

from __future__ import annotations

import asyncio
import gzip
import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from teia.cli.main import application
from teia.clock import VirtualClock
from teia.config.sections import RetentionSettings
from teia.crawler.lookup import Lookup
from teia.crawler.upkeep.closed_files import sign_all
from teia.crawler.upkeep.retention import DAY_S, RetentionResult, removal_reasons
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.tables.captures import CaptureRow
from teia.store.manifest import MANIFEST
from teia.store.root import Root, open_root
from teia.transfer.manifest_audit import audit_manifest
from teia.transfer.read_all import audit_archives
from teia.transfer.retention import retain
from teia.views.captures import read_capture
from tests.crawler.offline import NOW_S, offline_crawl
from tests.transfer.kills import steps_until

PAGE, COPY = "http://a.test/", "http://b.test/"
VISITS = 9
CLOCK = VirtualClock(NOW_S + 99 * DAY_S)


def crawled(folder: Path, **settings: Any) -> Root:
    """A page with nine captures in six versions, and another page with the bytes of its second version."""
    texts = ["one", "two", "two", "three", "four", "four", "five", "six", "six"]
    bodies = {text: f"<p>{text} " + (f"{text} has many words of its own " * 200) for text in texts}
    web = {PAGE: f"{bodies['one']}", COPY: "none"}
    flags = {f"retention__{key}": value for key, value in settings.items()}
    with offline_crawl(web, folder, PAGE, COPY, collection__cells=1, **flags) as crawl:
        crawl.run()
        for text in texts[1:]:
            asyncio.run(crawl.clock.advance(10 * DAY_S))
            web[PAGE] = bodies[text]
            crawl.revisit_only(PAGE)
    return open_root(folder / "data")


def captured(root: Root, url: str = PAGE) -> list[bytes]:
    """The first word of each capture that a reader finds, each of them whole."""
    found = []
    with Lookup(root, "main") as lookup:
        entry = lookup.find(url)
        assert entry is not None
        for visit in lookup.visits(entry):
            if visit.file:
                capture = read_capture(lookup, entry, visit)
                assert capture.is_whole
                found.append(capture.body.removeprefix(b"<p>").split()[0])
    return found


def visits(root: Root) -> int:
    with Lookup(root, "main") as lookup:
        entry = lookup.find(PAGE)
        assert entry is not None
        return len(lookup.visits(entry))


def apply(root: Root, *, dry_run: bool = False) -> RetentionResult:
    return retain(root, "main", VirtualClock(NOW_S + 100 * DAY_S), dry_run=dry_run)


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({}, "one two two three four four five six six"),
        ({"versions": 2}, "one five six six"),
        ({"versions": 2, "first": False}, "five six six"),
        # The body of a kept revisit record stays, though it is older than the rule says.
        ({"days": 55.0, "first": False}, "four four five six six"),
        ({"days": 15.0, "first": False}, "six six"),
        ({"days": 1.0, "first": False, "monthly": True}, "two four six six"),
    ],
)
def test_rules_say_what_stays(tmp_path: Path, settings: dict[str, Any], kept: str) -> None:
    root = crawled(tmp_path, **settings)
    said = apply(root, dry_run=True)
    assert len(captured(root)) == VISITS
    done = apply(root)
    assert (done.removed, done.by_rule, done.held) == (said.removed, said.by_rule, said.held)
    assert captured(root) == [text.encode() for text in kept.split()]
    assert done.removed == VISITS - len(kept.split())
    assert visits(root) == VISITS, "the history of the page has all its visits"
    assert captured(root, COPY) == [b"none"]
    assert audit_archives(root, "main").violations == 0
    assert apply(root).removed == 0


def test_a_quota_takes_the_oldest_captures_and_never_the_last(tmp_path: Path) -> None:
    root = crawled(tmp_path, quota_bytes=1, first=False)
    done = apply(root)
    assert captured(root) == [b"six", b"six"]
    assert captured(root, COPY) == [b"none"]
    assert done.is_over_quota
    assert done.by_rule == {"quota": done.removed}
    assert done.removed == VISITS - 2


def test_a_body_that_another_page_refers_to_stays(tmp_path: Path) -> None:
    """The content-seen test stores one body for several pages: removing it would take the capture of the other one."""
    root = crawled(tmp_path, versions=1, first=False)
    with closing(FrontierCell(root.collection("main").cells()[0].frontier)) as cell, cell.transaction():
        first = cell.row("SELECT v.digest FROM visits AS v JOIN hosts AS h USING (host_id) WHERE h.name = 'a.test'")
        cell.db.execute(
            "UPDATE visits SET digest = ? WHERE host_id = (SELECT host_id FROM hosts WHERE name = 'b.test')", first
        )
    done = apply(root)
    assert done.held >= 1
    assert captured(root)[0] == b"one"


def test_the_capture_that_readers_get_stays_though_a_failed_visit_came_after_it(tmp_path: Path) -> None:
    web = {PAGE: "<p>good words of a page that will fail"}
    with offline_crawl(
        web, tmp_path, PAGE, collection__cells=1, retention__versions=1, retention__first=False
    ) as crawl:
        crawl.run()
        asyncio.run(crawl.clock.advance(10 * DAY_S))
        web[PAGE] = "503"
        crawl.revisit_only(PAGE)
    root = open_root(tmp_path / "data")
    assert len(captured(root)) == 2
    apply(root)
    assert captured(root)[0] == b"good"


def test_a_page_whose_body_another_page_stored_keeps_its_last_good_capture(tmp_path: Path) -> None:
    """Its row names the other page's record, not its own revisit record: both are needed after a failed visit."""
    web = {PAGE: "<p>good words of two pages", COPY: "<p>good words of two pages"}
    with offline_crawl(
        web, tmp_path, PAGE, COPY, collection__cells=1, retention__versions=1, retention__first=False
    ) as crawl:
        crawl.run()
        for texts in ({COPY: "503"}, {PAGE: "<p>other words"}):
            asyncio.run(crawl.clock.advance(10 * DAY_S))
            web |= texts
            crawl.revisit_only(*texts)
    root = open_root(tmp_path / "data")
    with closing(FrontierCell(root.collection("main").cells()[0].frontier)) as cell, cell.transaction():
        # As the content-seen test stores it: the row of the second page names the first one's record.
        host = "(SELECT host_id FROM hosts WHERE name = '{}.test')"
        first = cell.row(
            f"SELECT file, offset, length FROM visits WHERE host_id = {host.format('a')} ORDER BY time_s LIMIT 1"
        )
        cell.db.execute(f"UPDATE pages SET file = ?, offset = ?, length = ? WHERE host_id = {host.format('b')}", first)
    apply(root)
    assert captured(root, COPY)[0] == b"good"
    with Lookup(root, "main") as lookup:
        assert b"good words" in lookup.capture(COPY).payload


def test_a_quota_passes_over_captures_that_others_need(tmp_path: Path) -> None:
    """The oldest captures may be bodies that other pages refer to; then the next oldest go."""
    root = crawled(tmp_path, quota_bytes=1, first=False)
    with closing(FrontierCell(root.collection("main").cells()[0].frontier)) as cell, cell.transaction():
        first = cell.row("SELECT v.digest FROM visits AS v JOIN hosts AS h USING (host_id) WHERE h.name = 'a.test'")
        cell.db.execute(
            "UPDATE visits SET digest = ? WHERE host_id = (SELECT host_id FROM hosts WHERE name = 'b.test')", first
        )
    quota = apply(root, dry_run=True).archive_bytes - 1
    settings = root.path / "main" / "teia.toml"
    settings.write_text(settings.read_text().replace("quota_bytes = 1", f"quota_bytes = {quota}"))
    said, done = apply(root, dry_run=True), apply(root)
    assert said.by_rule == {"quota": 1}
    assert not said.is_over_quota
    assert done.removed >= 1
    assert captured(root)[0] == b"one", "another page has its body there"
    assert captured(root)[1:3] != [b"two", b"two"], "so the next oldest went"


def test_reasons_name_the_rule() -> None:
    captures = [CaptureRow(NOW_S + number * DAY_S, bytes([number]), "f", number, 9) for number in range(5)]
    rules = RetentionSettings(versions=2, days=3.5)
    assert removal_reasons(captures, rules, NOW_S + 5 * DAY_S) == ["", "versions", "versions", None, ""]
    assert removal_reasons(captures[:1], rules, NOW_S + 500 * DAY_S) == [""]


def test_the_command_says_what_would_go_and_removes_it(tmp_path: Path) -> None:
    root, run = crawled(tmp_path, versions=1), CliRunner()
    words = ["retain", "--data", str(root.path), "--json"]
    said = run.invoke(application(["retain"]), [*words, "--dry-run"])
    assert said.exit_code == 0, said.output
    would = json.loads(said.stdout.splitlines()[-1])
    assert (would["removed"], would["is_dry_run"]) == (6, True)
    done = json.loads(run.invoke(application(["retain"]), words).stdout.splitlines()[-1])
    assert (done["removed"], done["is_dry_run"], done["captures"]) == (6, False, 10)
    assert captured(root) == [b"one", b"six", b"six"]


def _kill_and_check(before: Root, folder: Path, step: int) -> None:
    """kill -9 before a step: audits are clean, what stays is readable, and the next run ends the removal."""
    wanted = [b"one", b"five", b"six", b"six"]
    shutil.copytree(before.path, folder)
    root = open_root(folder)
    assert steps_until(step, lambda: apply(root)) == step
    assert audit_archives(root, "main").violations == 0, step
    assert audit_manifest(root, "main", CLOCK).details == (), step
    # Either nothing is forgotten yet, or everything; a reader finds each capture whole in both cases.
    assert captured(root) in (wanted, captured(before)), step
    apply(root)
    assert captured(root) == wanted, step
    assert captured(root, COPY) == [b"none"], step
    assert audit_archives(root, "main").violations == 0, step
    assert audit_manifest(root, "main", CLOCK).details == (), step
    events = [json.loads(line)["event"] for line in (root.path / "main" / MANIFEST).read_text().splitlines()]
    assert "damaged" not in events, step
    assert events.count("erased") >= 1, step
    assert b"three" not in b"".join(map(gzip_text, root.path.rglob("*.warc.gz"))), step
    with closing(FrontierCell(root.collection("main").cells()[0].frontier, read_only=True)) as cell:
        assert cell.meta("erasures") is None, step
    shutil.rmtree(folder)


def gzip_text(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())


@pytest.fixture(scope="module")
def six_versions(tmp_path_factory: pytest.TempPathFactory) -> Root:
    root = crawled(tmp_path_factory.mktemp("retention"), versions=2)
    assert sign_all(root.collection("main"), CLOCK) == 1
    # Imports now what it needs: a child that imports it makes more calls than the next one.
    assert audit_manifest(root, "main", CLOCK).violations == 0
    return root


def total_steps(before: Root, folder: Path) -> int:
    shutil.copytree(before.path, folder)
    root = open_root(folder)
    total = steps_until(0, lambda: apply(root))
    shutil.rmtree(folder)
    return total


@pytest.mark.heavy
def test_a_kill_leaves_nothing_half_removed(six_versions: Root, tmp_path: Path) -> None:
    total = total_steps(six_versions, tmp_path / "data")
    assert total > 50
    # Most of the last calls write the new file and rename it.
    for step in (*range(total // 2, total, max(1, total // 10)), total):
        _kill_and_check(six_versions, tmp_path / "data", step)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_kill_at_any_step_leaves_nothing_half_removed(six_versions: Root, tmp_path: Path) -> None:
    for step in range(1, total_steps(six_versions, tmp_path / "data") + 1):
        _kill_and_check(six_versions, tmp_path / "data", step)
