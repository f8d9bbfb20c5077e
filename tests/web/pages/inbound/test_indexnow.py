"""IndexNow over HTTP: taken where it is wanted, believed when the key was seen; forgeries are counted."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from teia.clock import WallClock
from teia.config.sections import Config
from teia.crawler import compiled_settings as compiled
from teia.crawler.ownership import HostOwners
from teia.crawler.signals_in.indexnow import prove_keys
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import FoundUrl, PageRow, QueuedUrl, SettledVisit, tail_of
from teia.frontier.cell.schema import STATE_DONE
from teia.signals.announce import counts_in, open_inbox
from teia.signals.indexnow import KEYS_PER_HOST, IndexNowKeys
from teia.urls import key_of, split
from teia.web.server import installation as installation_module
from tests.web.conftest import Web

KEY = "0123456789abcdef"


@pytest.fixture
def wanting(web: Web) -> Web:
    path = web.installation.root.collection("main").config
    path.write_text(path.read_text("utf-8") + "\n[signals]\nindexnow = true\n", "utf-8")
    return web


def here(web: Web) -> str:
    return web.some_url().rpartition("/")[0]


def ping_status(web: Web, *paths: str, key: str = KEY) -> int:
    urls = [here(web) + path for path in paths]
    host = split(urls[0]).authority
    return web.client().post("/indexnow", json={"host": host, "key": key, "urlList": urls}).status_code


def visited(web: Web, body: bytes, status: int = 200) -> None:
    """Let the crawler have visited the key file, and look."""
    folder = web.installation.root.collection("main")
    url, now_s = f"{here(web)}/{KEY}.txt", WallClock().now_s() + 1
    host = split(url).host
    inbox = open_inbox(folder.signals)
    for each in folder.cells():
        cell = FrontierCell(each.frontier)
        if cell.db.execute("SELECT 1 FROM hosts WHERE name = ?", (host,)).fetchone():
            with cell.transaction():
                cell.add_links([FoundUrl(host, key_of(url), tail_of(url, host), 1)], now_s)
                item = QueuedUrl(url, key_of(url), 0, 0, 1, now_s)
                page = PageRow(status, sha256(body).digest())
                cell.settle(
                    SettledVisit(cell.host_id(host, now_s), item, str(status), STATE_DONE, now_s, page=page), host
                )
            prove_keys(inbox, IndexNowKeys(inbox.db), lambda _, cell=cell: cell, now_s, HostOwners(lambda _: 0))  # type: ignore[misc]
        cell.close()
    inbox.close()


def waiting(web: Web) -> list[str]:
    inbox = open_inbox(web.installation.root.collection("main").signals)
    found = [each.url for each in inbox.due("indexnow", WallClock().now_s() + 10, 100)]
    inbox.close()
    return [url for url in found if not url.endswith(".txt")]


def counts(web: Web) -> dict[str, int]:
    return counts_in(web.installation.root.collection("main").signals)["indexnow"]


def test_urls_that_are_longer_than_the_limit_once_they_are_escaped_are_refused(wanting: Web) -> None:
    """4,022 letters with accents became 24,022 characters, and a few of them a message that no node could send."""
    long = f"/{'é' * 4_000}"
    assert ping_status(wanting, long) == 422
    assert ping_status(wanting, long, "/lei") == 202
    assert counts(wanting) == {"out_of_scope": 1, "received": 1, "foreign": 1}
    host = split(wanting.some_url()).authority
    message = {
        "host": host,
        "key": KEY,
        "urlList": [f"{here(wanting)}/é/lei"],
        "keyLocation": f"{here(wanting)}/{'é' * 1_000}.txt",
    }
    assert wanting.client().post("/indexnow", json=message).status_code == 422


def test_nobody_takes_what_no_collection_wants(web: Web) -> None:
    assert ping_status(web, "/lei") == 422
    assert not web.installation.root.collection("main").signals.exists()


def test_a_ping_waits_for_its_key_and_then_goes_to_the_crawl(wanting: Web) -> None:
    assert ping_status(wanting, "/lei", "/renda") == 202
    assert waiting(wanting) == []
    visited(wanting, KEY.encode())
    assert set(waiting(wanting)) == {f"{here(wanting)}/lei", f"{here(wanting)}/renda"}
    assert ping_status(wanting, "/xss") == 200
    one = wanting.client().get("/indexnow", params={"url": f"{here(wanting)}/", "key": KEY})
    assert one.status_code == 200
    assert len(waiting(wanting)) == 4


@pytest.mark.parametrize(("body", "status"), [(b"something else", 200), (KEY.encode(), 404)])
def test_a_forged_ping_is_ignored_and_counted(wanting: Web, body: bytes, status: int) -> None:
    assert ping_status(wanting, "/lei", "/renda") == 202
    visited(wanting, body, status)
    assert waiting(wanting) == []
    assert counts(wanting)["forged"] == 2
    assert ping_status(wanting, "/lei") == 403
    assert counts(wanting)["forged"] == 3


def test_too_many_keys_of_a_host_get_a_retry_after(wanting: Web) -> None:
    statuses = [ping_status(wanting, "/lei", key=f"forged-{number:04}") for number in range(KEYS_PER_HOST + 1)]
    assert statuses == [202] * KEYS_PER_HOST + [429]


def test_what_the_settings_mean_is_worked_out_once_and_again_when_they_are_others(
    wanting: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked_out = []

    def noted(config: Config, lists: Path) -> compiled.CompiledSettings:
        worked_out.append(config)
        return compiled.compile_settings(config, lists)

    monkeypatch.setattr(installation_module, "compile_settings", noted)
    assert [ping_status(wanting, "/lei") for _ in range(5)] == [202] * 5
    assert len(worked_out) == 1
    path = wanting.installation.root.collection("main").config
    other = path.with_suffix(".new")
    other.write_text(path.read_text("utf-8") + "\n[public]\ncopies = false\n", "utf-8")
    other.replace(path)
    ping_status(wanting, "/lei")
    assert len(worked_out) == 2


def test_pages_of_other_sites_and_messages_without_sense_are_counted(wanting: Web) -> None:
    outside = {"host": "other.example", "key": KEY, "urlList": ["https://other.example/a"]}
    assert wanting.client().post("/indexnow", json=outside).status_code == 422
    assert ping_status(wanting, "/lei", key="short-") == 422
    assert wanting.client().get("/indexnow").status_code == 422
    assert wanting.client().post("/indexnow", content=b"{").status_code == 400
    assert counts(wanting)["out_of_scope"] == 1
    assert counts(wanting)["malformed"] == 2
