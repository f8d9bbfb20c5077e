"""The head of every page of an operator: how much runs, how much needs a person (UX 2.0)."""

from __future__ import annotations

import re
import sqlite3

import pytest

from teia.collections.control_file import CrawlReports
from teia.views.alerts import Alert, Disk
from teia.web.access.roles import Role
from teia.web.server import headline
from teia.web.server.installation import Installation
from tests.waiting import until
from tests.web.conftest import Web
from tests.web.pages.collection.test_monitor import running

__all__ = ["running"]


def shown(page: str) -> list[tuple[str, str]]:
    """The links of the headline: where to, and what they say."""
    found = re.search(r'<div class="standing"[^>]*>(.*?)</div>', page, re.DOTALL)
    links = re.findall(r'href="([^"]+)">([^<]+)</a>', found[1]) if found else []
    return [(to, said) for to, said in links]


def test_a_quiet_installation_has_no_headline(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teia.web.parts.collection_state.measure_disk", lambda *_: Disk(0.5, 0.05))
    monkeypatch.setattr(headline, "PATIENCE_S", 30.0)
    assert shown(web.client(Role.OPERATOR).get("/").text) == []
    found = web.installation.cache.last(("headline",))
    assert found is not None
    assert (found.value.running, found.value.alerts) == (0, 0)


def test_operators_see_on_every_page_what_runs_and_what_needs_them(
    web: Web, running: CrawlReports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("teia.web.parts.collection_state.measure_disk", lambda *_: Disk(0.06, 0.05))
    monkeypatch.setattr(headline, "PATIENCE_S", 30.0)
    operator = web.client(Role.OPERATOR)
    for address in ("/", "/c", "/c/main", "/lab", "/search?q=renda", "/nothing-here"):
        assert shown(operator.get(address).text) == [("/c", "1 running"), ("/c/main#needs", "1 alert")], address
    assert 'id="needs"' in operator.get("/c/main").text, "where it leads to"
    portuguese = operator.get("/", headers={"accept-language": "pt-BR"}).text
    assert [said for _, said in shown(portuguese)] == ["1 em execução", "1 alerta"]
    for role in (Role.PUBLIC, Role.VIEWER):
        assert shown(web.client(role).get("/").text) == []


def test_the_headline_is_not_computed_again_for_every_page(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many pages are looked at, and however long it takes, nobody waits for it."""
    made = []
    monkeypatch.setattr(
        headline, "_compute_headline", lambda installation: made.append(installation) or headline.Headline(1, 0, "/c")
    )
    monkeypatch.setattr(headline, "FRESH_S", 3_600.0)
    operator = web.client(Role.OPERATOR)
    for _ in range(5):
        assert operator.get("/c").status_code == 200
    assert len(made) == 1


def test_hosts_are_counted_anew_for_it_one_collection_at_a_time(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that needs somebody since the last count is told of; and many collections are not walked at once."""
    walked, made = [], 0

    def walk(_: object, name: str, patience_s: float) -> None:
        assert patience_s > 0, "the next one waits for it"
        walked.append(name)
        if name == "b":
            raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(headline, "table_of", walk)
    monkeypatch.setattr(headline, "FRESH_S", 0.0)
    monkeypatch.setattr(Installation, "names", lambda _: ["a", "b", "c"])

    def walked_round() -> bool:
        nonlocal made
        headline._compute_headline(web.installation)
        made += 1
        assert len(walked) <= made, "one at most for each headline"
        return len(walked) >= 7

    until(walked_round)
    assert walked[:7] == ["a", "b", "c", "a", "b", "c", "a"], "one that cannot be counted keeps no other from its turn"


def test_one_full_disk_is_one_thing_that_needs_somebody(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    full = [Alert("disk", "full", 80.0), Alert("parked", "left alone", 30.0)]
    monkeypatch.setattr(headline, "open_alerts", lambda *_: full)
    monkeypatch.setattr(Installation, "names", lambda _: ["a", "b", "c"])
    monkeypatch.setattr(headline, "table_of", lambda *_: None)
    assert headline._compute_headline(web.installation).alerts == 1 + 3


def test_a_headline_that_cannot_be_made_breaks_no_page(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> headline.Headline:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(headline, "_compute_headline", broken)
    monkeypatch.setattr(headline, "PATIENCE_S", 30.0)
    operator = web.client(Role.OPERATOR)
    for address, status in (("/lab", 200), ("/c", 200), ("/nothing-here", 404)):
        assert operator.get(address).status_code == status, address
