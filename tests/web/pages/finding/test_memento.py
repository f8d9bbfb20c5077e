"""An archive client finds the right capture of any moment, by RFC 7089 alone."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from email.utils import formatdate, parsedate_to_datetime

import pytest
from httpx2 import Response

from teia.clock import WallClock
from teia.collections.settings import change
from teia.crawler.lookup import Lookup
from teia.frontier.tables.pages import VisitEntry
from teia.records import Edit, Operator
from teia.store.cdxj import timestamp
from teia.store.root import open_root
from teia.web.access.roles import Role
from teia.web.pages.finding import memento
from tests.crawler.offline import offline_crawl
from tests.web.conftest import Web
from tests.web.pages.finding.history import MOVED, PAGE, QUERY, VERSIONS, make_history, serve_history

LINK = re.compile(r'<(?P<uri>[^>]*)>(?P<rest>(?:; \w+="[^"]*")*)')


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    folder = tmp_path_factory.mktemp("memento")
    make_history(folder)
    with serve_history(folder) as served:
        yield served


@pytest.fixture(scope="module")
def visits(web: Web) -> list[VisitEntry]:
    with Lookup(web.installation.root, "main") as lookup:
        entry = lookup.find(PAGE)
        assert entry is not None
        return lookup.visits(entry)


def links_of(text: str) -> list[tuple[set[str], str, dict[str, str]]]:
    """Relations, target and other attributes of each link."""
    found = []
    for link in LINK.finditer(text):
        fields = dict(re.findall(r'; (\w+)="([^"]*)"', link["rest"]))
        found.append((set(fields.pop("rel").split()), link["uri"], fields))
    return found


def of_relation(text: str, relation: str) -> str:
    (uri,) = [uri for relations, uri, _ in links_of(text) if relation in relations]
    return uri


def date(time_s: float) -> str:
    return formatdate(int(time_s), usegmt=True)


def test_fifty_random_moments_lead_to_the_nearest_capture(web: Web, visits: list[VisitEntry]) -> None:
    assert len(visits) == VERSIONS
    client, chance = web.client(), random.Random(50)
    first_s, last_s = visits[0].time_s, visits[-1].time_s
    with Lookup(web.installation.root, "main") as lookup:
        for _ in range(50):
            wanted_s = float(int(chance.uniform(first_s - 1e6, last_s + 1e6)))
            gate = client.head(f"/c/main/timegate/{PAGE}", headers={"accept-datetime": date(wanted_s)})
            assert gate.status_code == 302
            assert "accept-datetime" in gate.headers["vary"]
            nearest = min(visits, key=lambda visit: abs(visit.time_s - wanted_s))
            capture = client.get(gate.headers["location"])
            assert capture.status_code == 200
            assert capture.headers["memento-datetime"] == date(nearest.time_s)
            assert capture.content == lookup.capture(PAGE, nearest.time_s).payload
            assert of_relation(capture.headers["link"], "original") == PAGE


def test_without_a_time_the_gate_leads_to_the_last_capture(web: Web, visits: list[VisitEntry]) -> None:
    gate = web.client().get(f"/c/main/timegate/{PAGE}")
    assert "memento-datetime" not in gate.headers
    assert web.client().head(gate.headers["location"]).headers["memento-datetime"] == date(visits[-1].time_s)


def test_the_map_has_every_capture_and_can_be_read_in_parts(
    web: Web, visits: list[VisitEntry], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memento, "TIMEMAP_CAPTURES", 10)
    uri, found, parts = f"/c/main/timemap/link/{PAGE}", list[str](), 0
    while uri:
        answer = web.client().get(uri)
        assert answer.headers["content-type"].startswith("application/link-format")
        links, parts = links_of(answer.text), parts + 1
        found += [fields["datetime"] for relations, _, fields in links if "memento" in relations]
        uri = next((to for relations, to, _ in links if "timemap" in relations), "")
        (span,) = [fields for relations, _, fields in links if "self" in relations]
        assert (span["from"], span["until"]) == (
            found[-len([1 for each in links if "memento" in each[0]])],
            found[-1],
        )
    assert parts == 3
    assert found == [date(visit.time_s) for visit in visits]


def test_a_capture_names_its_neighbours(web: Web, visits: list[VisitEntry]) -> None:
    gate = web.client().get(f"/c/main/timegate/{PAGE}", headers={"accept-datetime": date(visits[3].time_s)})
    text = web.client().get(gate.headers["location"]).headers["link"]
    dates = {word: fields["datetime"] for relations, _, fields in links_of(text) for word in relations - {"memento"}
             if "datetime" in fields}  # fmt: skip
    assert dates == {
        word: date(visits[at].time_s) for word, at in (("first", 0), ("prev", 2), ("next", 4), ("last", -1))
    }
    assert of_relation(text, "timemap").endswith(f"/c/main/timemap/link/{PAGE}")
    assert web.client().get(of_relation(text, "timegate")).status_code == 302


def test_another_second_leads_to_the_nearest_capture(web: Web, visits: list[VisitEntry]) -> None:
    answer = web.client().get(f"/c/main/memento/2099/{PAGE}")
    assert answer.status_code == 302
    assert "memento-datetime" not in answer.headers
    moment = parsedate_to_datetime(web.client().get(answer.headers["location"]).headers["memento-datetime"])
    assert moment.timestamp() == int(visits[-1].time_s)


@pytest.mark.parametrize(
    "spelling",
    [
        QUERY,
        QUERY.replace("http://", "http:/"),
        "https://www.a.test/find?b=2&a=%C3%A7",
        "a.test/find?b=2&a=%C3%A7",
        "http%3A%2F%2Fa.test%2Ffind%3Fb%3D2%26a%3D%25C3%25A7",
    ],
)
def test_the_original_url_may_have_a_query_and_several_spellings(web: Web, spelling: str) -> None:
    gate = web.client().get(f"/c/main/timegate/{spelling}")
    assert gate.status_code == 302, gate.text
    assert web.client().get(gate.headers["location"]).text == "answers"


def test_an_archived_redirect_stays_in_the_archive(web: Web) -> None:
    gate = web.client().get(f"/c/main/timegate/{MOVED}")
    capture = web.client().get(gate.headers["location"])
    assert capture.status_code == 302
    assert "memento-datetime" in capture.headers
    to = capture.headers["location"]
    assert re.fullmatch(rf"http://127\.0\.0\.1:8700/c/main/memento/\d{{14}}/{re.escape(PAGE)}", to)


def test_a_capture_has_no_rights_in_a_browser(web: Web) -> None:
    gate = web.client().get(f"/c/main/timegate/{PAGE}")
    policy = web.client().get(gate.headers["location"]).headers["content-security-policy"]
    assert policy.startswith("sandbox; default-src 'none'")


@pytest.mark.parametrize("use", ["script", "style", "serviceworker"])
def test_no_page_of_ours_can_load_a_capture_as_a_script_or_a_style(
    web: Web, visits: list[VisitEntry], use: str
) -> None:
    """The policy of our pages allows scripts of our own origin, and a capture has its original media type."""
    path = f"/c/main/memento/{timestamp(visits[0].time_s)}/{PAGE}"
    assert web.client().get(path, headers={"sec-fetch-dest": "document"}).status_code == 200
    assert web.client().get(path, headers={"sec-fetch-dest": use}).status_code == 403


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        (f"/c/main/timegate/{PAGE}never", {}, 404),
        (f"/c/main/timemap/link/{PAGE}never", {}, 404),
        (f"/c/main/timegate/{PAGE}", {"accept-datetime": "yesterday"}, 400),
        ("/c/main/timegate/mailto:a@a.test", {}, 400),
        (f"/c/main/memento/20x9/{PAGE}", {}, 400),
        (f"/c/other/timegate/{PAGE}", {}, 404),
    ],
)
def test_what_is_not_there_or_wrong_is_said(web: Web, path: str, headers: dict[str, str], status: int) -> None:
    answer: Response = web.client().get(path, headers=headers)
    assert answer.status_code == status, answer.text


def test_captures_that_are_not_public_need_an_account(
    tmp_path: object, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("closed")
    make_history(folder)
    change(open_root(folder / "data"), "main", [Edit("public.copies", Operator.SET, False)], WallClock())
    with serve_history(folder) as served:
        for kind in ("timegate", "timemap/link", "memento/2026"):
            assert served.client().get(f"/c/main/{kind}/{PAGE}").status_code in {401, 403}
        assert served.client().get("/c/main/cdx", params={"url": PAGE}).status_code in {401, 403}


@pytest.mark.heavy
def test_a_page_that_says_noarchive_is_shown_after_signing_in(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("noarchive")
    with offline_crawl({PAGE: '<meta name="robots" content="noarchive">private'}, folder, PAGE) as crawl:
        crawl.run()
        crawl.revisit_only(PAGE)
    root = open_root(folder / "data")
    with serve_history(folder) as served:
        public, viewer = served.client(), served.client(Role.VIEWER)
        uri = public.get(f"/c/main/timegate/{PAGE}").headers["location"]
        pages = (uri, f"/api/v1/c/main/copy?url={PAGE}", f"/api/v1/c/main/diff?url={PAGE}")
        for page in pages:
            assert public.get(page).status_code in {401, 403}, page
            assert viewer.get(page).status_code == 200, page
        change(root, "main", [Edit("public.noarchive", Operator.SET, False)], WallClock())
        assert public.get(uri).status_code == 200
