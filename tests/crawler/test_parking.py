"""One bad collection of a folder does not stop the others: it is left alone, says why, and may be mended."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from teia.cli.crawl.control import current_account
from teia.clock import WallClock
from teia.collections.commands import give_command
from teia.collections.coordinator import Coordinator
from teia.collections.settings import change
from teia.crawler.start import open_crawler
from teia.errors import TeiaError
from teia.records import Command, Edit, Operator
from teia.store.root import Root, open_root
from teia.views.alerts import Disk, find_alerts
from tests.collections.test_resident import give, is_done, pages_of, serve, visits
from tests.system.labs import Lab, running_lab
from tests.waiting import until_async as until

SPEC = """
seed = 15
hosts = 2
pages = 12

[sites]
nxdomain = 0
unreachable = 0

[errors]
scale = 0.0

[robots]
crawl_delay = 0
"""

PAGES = 40
"""Pages of a collection that is still crawled while another one is fixed."""


def damage_frontier(root: Root, name: str) -> None:
    frontier = root.collection(name).cells()[0].frontier
    for beside in frontier.parent.glob("frontier.sqlite*"):
        beside.unlink()
    frontier.write_bytes(b"this is no database, whatever it was before" * 200)


def give_wrong_seed(root: Root, name: str) -> None:
    config = root.collection(name).config
    lines = config.read_text().splitlines()
    config.write_text("\n".join('seeds = ["ftp://a.test/"]' if line.startswith("seeds") else line for line in lines))


def give_impossible_socket(root: Root, name: str) -> None:
    config = root.collection(name).config
    config.write_text(config.read_text() + '\n[signals]\nsocket = "/nowhere/at/all/teia.socket"\n')


def tear_settings(root: Root, name: str) -> None:
    config = root.collection(name).config
    config.write_text("[collection\n" + config.read_text())


WAYS = [
    pytest.param(damage_frontier, "frontier.sqlite", id="a damaged frontier"),
    pytest.param(give_wrong_seed, "must be an http or https URL", id="a wrong seed"),
    pytest.param(give_impossible_socket, "signals.socket", id="an impossible socket"),
    pytest.param(tear_settings, "teia.toml", id="settings that cannot be read"),
]


def is_parked(resident: Coordinator, name: str) -> bool:
    """Tell whether the resident has taken a collection up and parked it."""
    return name in resident.controllers and resident.controllers[name].parked != ""


@pytest.mark.parametrize(("spoil", "why"), WAYS)
def test_a_server_parks_a_bad_collection_tells_why_and_crawls_the_others(
    tmp_path: Path, spoil: Callable[[Root, str], None], why: str
) -> None:
    async def talk(root: Root, make: Callable[..., None], resident: Coordinator) -> None:
        make("bad")
        make("good")
        spoil(root, "bad")
        for name in ("bad", "good"):
            await give(root, name, Command.RUN)
        await until(lambda: is_done(root, "good"))
        await until(lambda: current_account(root, "bad")["state"] == "paused")
        account = current_account(root, "bad")
        assert why in account["paused_why"]
        assert [need.kind for need in find_alerts(account, None, Disk(1.0, 0.0))] == ["paused"]
        assert not is_done(root, "bad")
        assert pages_of(resident, "good") == 8
        resident.stop()

    serve(tmp_path, talk)


def test_a_parked_collection_is_tried_again_when_its_settings_change(tmp_path: Path) -> None:
    async def talk(root: Root, make: Callable[..., None], resident: Coordinator) -> None:
        make("bad")
        make("good")
        give_impossible_socket(root, "bad")
        for name in ("bad", "good"):
            await give(root, name, Command.RUN)
        await until(lambda: is_parked(resident, "bad"))
        await until(lambda: is_done(root, "good"))
        edits = [Edit("signals.socket", Operator.SET, "")]
        await asyncio.to_thread(change, root, "bad", edits, WallClock())
        await until(lambda: is_done(root, "bad"))
        assert pages_of(resident, "bad") == 8

    serve(tmp_path, talk)


async def both_begin_and_one_fails(root: Root, make: Callable[..., None], resident: Coordinator, socket: Path) -> None:
    """Start two collections in one shift; the one whose socket cannot be made fails, and stays open until its end."""
    make("bad", **{"signals.socket": str(socket)})
    make("good")
    for name in ("bad", "good"):
        give_command(root, name, Command.RUN, WallClock())
    await until(lambda: is_parked(resident, "bad") and pages_of(resident, "good") > 0)
    assert resident.controllers["bad"].crawl is not None
    assert not is_done(root, "good")


def test_settings_that_change_during_the_shift_in_which_a_collection_failed_are_tried(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def talk(root: Root, make: Callable[..., None], resident: Coordinator) -> None:
        await both_begin_and_one_fails(root, make, resident, tmp_path / "missing" / "socket")
        edits = [Edit("signals.socket", Operator.SET, "")]
        changed = await asyncio.to_thread(change, root, "bad", edits, WallClock())
        assert changed.now == ("signals.socket",)
        await until(lambda: is_done(root, "bad") and is_done(root, "good"))
        assert (pages_of(resident, "bad"), pages_of(resident, "good")) == (PAGES, PAGES)

    entries = serve(tmp_path, talk, pages=PAGES)
    assert set(visits(entries).values()) == {2}, "each of the two visits every page once"
    assert "uncommitted" not in caplog.text, "a crawl that failed before its first page leaves none behind"


@pytest.mark.parametrize("command", [Command.RUN, Command.RESUME])
def test_a_collection_that_failed_in_this_shift_is_tried_again_when_a_user_asks(
    tmp_path: Path, command: Command
) -> None:
    async def talk(root: Root, make: Callable[..., None], resident: Coordinator) -> None:
        folder = tmp_path / "missing"
        await both_begin_and_one_fails(root, make, resident, folder / "socket")
        folder.mkdir(mode=0o700)
        await until(lambda: current_account(root, "bad")["state"] == "paused")
        await give(root, "bad", command)
        await until(lambda: is_done(root, "bad") and is_done(root, "good"))
        assert (pages_of(resident, "bad"), pages_of(resident, "good")) == (PAGES, PAGES)

    serve(tmp_path, talk, pages=PAGES)


# ---- the command ----------------------------------------------------------------------------------------------------


def teia_crawl(lab: Lab, data: Path, *words: str) -> subprocess.CompletedProcess[str]:
    shared = ["--dns", lab.dns, "--allow-net", "127.77.0.0/16", "--delay", "0", "--data", str(data), "--json"]
    command = [sys.executable, "-m", "teia", "crawl", *words, *shared]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_command_crawls_the_sound_ones_of_a_folder_and_fails_for_the_others(tmp_path: Path) -> None:
    with running_lab(tmp_path, SPEC, 96) as lab:
        for name in ("damaged", "good", "socket"):
            made = teia_crawl(lab, tmp_path / "data", lab.seed_url, "--name", name, "--max-pages", "1")
            assert made.returncode == 0, made.stderr
        root = open_root(tmp_path / "data")
        damage_frontier(root, "damaged")
        give_impossible_socket(root, "socket")
        together = teia_crawl(lab, tmp_path / "data", "--max-pages", "5")
        alone = teia_crawl(lab, tmp_path / "data", "--name", "damaged")
    assert together.returncode == 1
    accounts = {each["collection"]: each for each in json.loads(together.stdout.splitlines()[-1])["collections"]}
    assert (accounts["good"]["state"], accounts["good"]["paused_why"]) == ("limit", "")
    assert accounts["good"]["pages"] == accounts["good"]["indexed"] - 1 == 5
    assert "frontier.sqlite" in accounts["damaged"]["paused_why"]
    assert "signals.socket" in accounts["socket"]["paused_why"]
    assert together.stderr.count("skipped") == 2
    assert alone.returncode == 1
    assert "frontier.sqlite" in alone.stderr.splitlines()[-1]


def test_a_collection_that_fails_on_the_way_ends_alone(tmp_path: Path) -> None:
    """Its connection is closed under its hands; the other one is crawled to the end."""
    parked: dict[str, str] = {}

    def park(name: str, error: TeiaError) -> None:
        parked[name] = str(error)

    async def crawl(root: Root) -> dict[str, str]:
        from teia.collections.settings import saved

        configs = [saved(root, name).config for name in ("bad", "good")]
        async with open_crawler(root, configs, WallClock(), seed=1, park=park) as crawler:
            for cell in crawler.crawls[0].committer.cells:
                cell.frontier.db.close()
            async with asyncio.timeout(60):
                await crawler.run()
            assert crawler.crawls[0].failure is not None
            return {each.name: str(each.state) for each in crawler.crawls}

    with running_lab(tmp_path, SPEC, 97) as lab:
        for name in ("bad", "good"):
            made = teia_crawl(lab, tmp_path / "data", lab.seed_url, "--name", name, "--max-pages", "1", "--no-index")
            assert made.returncode == 0, made.stderr
        root = open_root(tmp_path / "data")
        for name in ("bad", "good"):
            config = root.collection(name).config
            config.write_text(config.read_text().replace("pages = 1\n", "pages = 0\n"))
        with root.locked():
            states = asyncio.run(crawl(root))
    assert states == {"bad": "stopped", "good": "finished"}
