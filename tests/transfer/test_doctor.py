"""`teia doctor`: what it finds, what it says to do, and that it is as polite as a crawl."""

from __future__ import annotations

import asyncio
import json
import resource
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from teia.cli.main import COMMANDS
from teia.clock import WallClock
from teia.config.load import load, to_toml
from teia.config.sections import Config
from teia.frontier.queue.ledger import Ledger
from teia.lib.closing import Closing
from teia.store.root import Root, open_root
from teia.transfer import doctor
from teia.transfer.doctor import Checked, check_contact, check_machine, check_seeds


class Site(Closing):
    """A server on loopback that counts requests for robots.txt."""

    def __init__(self, status: int, **headers: str) -> None:
        self.paths: list[str] = []
        seen = self.paths

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                seen.append(self.path)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


Sites = Callable[..., Site]


@pytest.fixture
def sites() -> Iterator[Sites]:
    with ExitStack() as stack:
        yield lambda status, **headers: stack.enter_context(Site(status, **headers))


def configured(tmp_path: Path, *seeds: str, **more: Any) -> tuple[Root, Config]:
    flags = {"collection.seeds": list(seeds), "fetch.allow_nets": ["127.0.0.0/8"], "courtesy.contact": "me@crawls.test"}
    config = load(None, {}, flags | more).config
    root = open_root(tmp_path / "data", create=True)
    root.create_collection("main", to_toml(config), 1)
    return root, config


def seeds_of(root: Root, config: Config) -> dict[str, Checked]:
    return {each.check: each for each in asyncio.run(check_seeds(root, config, WallClock()))}


def test_the_machine_is_checked_and_every_problem_has_an_action(tmp_path: Path) -> None:
    found = list(check_machine(tmp_path / "not" / "yet"))
    names = [each.check for each in found]
    machine = ["build", "compiled parts", "extras", "open files", "clock", "memory", "browser"]
    assert names == [*machine, "disk space", "disk writes"]
    assert all(each.action for each in found if each.state != "ok")
    assert list(tmp_path.iterdir()) == [], "nothing stays behind"


def test_a_full_or_forbidden_disk_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.DiskSpace, "complaint", lambda _: "only 3 MiB are free")
    states = {each.check: each for each in check_machine(Path("/proc"))}
    assert states["disk space"].state == states["disk writes"].state == "failure"


def test_a_low_limit_of_open_files_is_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "raise_limit", lambda: 256)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 256))
    found = {each.check: each for each in check_machine(tmp_path)}["open files"]
    assert (found.state, "LimitNOFILE" in found.action) == ("warning", True)


@pytest.mark.parametrize(("contact", "state"), [("", "failure"), ("a@example.org", "warning"), ("a@b.test", "ok")])
def test_a_contact_that_reaches_nobody_is_reported(contact: str, state: str) -> None:
    assert check_contact(load(None, {}, {"courtesy.contact": contact}).config).state == state


def test_robots_are_requested_once_and_the_next_crawl_knows_it(tmp_path: Path, sites: Sites) -> None:
    site = sites(404)
    root, config = configured(tmp_path, site.url)
    assert {name: each.state for name, each in seeds_of(root, config).items()} == {"DNS": "ok", "robots.txt": "ok"}
    again = seeds_of(root, config)["robots.txt"]
    assert (again.state, site.paths) == ("unknown", ["/robots.txt"]), "its delay is not over"
    entries = delays(root)
    assert set(entries) == {("server", "127.0.0.1"), ("address", "127.0.0.1")}
    assert all(delay_s == config.courtesy.delay_s for delay_s in entries.values())


def delays(root: Root) -> dict[tuple[str, str], float]:
    ledger = Ledger(root.path / "ledger.sqlite")
    assert ledger.open(), "the next crawl takes the times for exact"
    found = {(entry.kind, entry.name): entry.delay_s for entry in ledger.delays(WallClock().now_s())}
    ledger.close(clean=True, now_s=0.0)
    return found


@pytest.mark.parametrize(("headers", "least_s"), [({"Retry_After": "3000"}, 3000.0), ({}, 60.0)])
def test_a_refusal_delays_the_next_crawl_as_one_of_a_crawl_does(
    tmp_path: Path, sites: Sites, headers: dict[str, str], least_s: float
) -> None:
    root, config = configured(tmp_path, sites(503, **headers).url)
    seeds_of(root, config)
    assert delays(root)["server", "127.0.0.1"] == least_s


def test_nothing_is_requested_beside_a_crawler_or_after_its_crash(tmp_path: Path, sites: Sites) -> None:
    site = sites(200)
    root, config = configured(tmp_path, site.url)
    with root.locked():
        assert seeds_of(root, config)["robots.txt"].state == "unknown"
    crashed = Ledger(root.path / "ledger.sqlite")
    crashed.open()
    crashed.close(clean=False, now_s=0.0)
    assert seeds_of(root, config)["robots.txt"].state == "unknown"
    after = Ledger(root.path / "ledger.sqlite")
    assert not after.open(), "the crash is still known"
    after.close(clean=False, now_s=0.0)
    assert site.paths == []


def test_an_unreachable_robots_txt_and_a_blocked_address_are_failures(tmp_path: Path, sites: Sites) -> None:
    site = sites(503)
    root, config = configured(tmp_path, site.url)
    assert seeds_of(root, config)["robots.txt"].state == "failure"
    guarded = load(None, {}, {"collection.seeds": [site.url]}).config
    found = seeds_of(root, guarded)
    assert (found["DNS"].state, "robots.txt" in found) == ("failure", False)
    assert "fetch.allow_nets" in found["DNS"].action


def test_the_command_prints_findings_and_fails_with_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import typer

    from teia.cli.doctor import doctor as command

    configured(tmp_path, "http://a.test/", **{"courtesy.contact": ""})
    assert "doctor" in COMMANDS
    with pytest.raises(typer.Exit) as ended:
        command(tmp_path / "data", None, offline=True, as_json=True)
    answer = json.loads(capsys.readouterr().out)
    assert (ended.value.exit_code, answer["failures"]) == (1, 1)
    assert {"check": "contact", "state": "failure"}.items() <= answer["checks"][-1].items()
