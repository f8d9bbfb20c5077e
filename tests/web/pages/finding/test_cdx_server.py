"""Lists of captures, as clients of pywb and of the Wayback Machine read them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from teia.transfer.export import cdxj_lines
from teia.views import cdx
from tests.web.conftest import Web
from tests.web.pages.finding.history import MOVED, OTHER, PAGE, QUERY, VERSIONS, make_history, serve_history


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("cdx")
    make_history(made)
    return made


@pytest.fixture(scope="module")
def web(folder: Path) -> Iterator[Web]:
    with serve_history(folder) as served:
        yield served


def lines(web: Web, path: str = "/c/main/cdx", **query: Any) -> list[dict[str, str]]:
    answer = web.client().get(path, params={"output": "json", **query})
    assert answer.status_code == 200, answer.text
    if path.endswith("search/cdx"):
        names, *rows = answer.json() or [[]]
        return [dict(zip(names, row, strict=True)) for row in rows]
    return [json.loads(line) for line in answer.text.splitlines()]


def test_the_lines_are_those_of_the_exported_index(web: Web) -> None:
    with cdxj_lines(web.installation.root, "main") as exported:
        wanted = [line.decode() for line in exported if b"a.test)" not in line[:4] and b"robots.txt" not in line]
    found = web.client().get("/c/main/cdx", params={"url": "a.test", "matchType": "domain"}).text
    assert found.splitlines(keepends=True) == wanted
    assert len(wanted) == VERSIONS + 3


@pytest.mark.parametrize(
    ("query", "urls"),
    [
        ({"url": QUERY}, {QUERY}),
        ({"url": "https://www.a.test/moved"}, {MOVED}),
        ({"url": "a.test/", "matchType": "prefix"}, {PAGE, QUERY, MOVED}),
        ({"url": "http://a.test/mo*"}, {MOVED}),
        ({"url": "a.test", "matchType": "host"}, {PAGE, QUERY, MOVED}),
        ({"url": "*.a.test"}, {PAGE, QUERY, MOVED, OTHER}),
        ({"url": "b.a.test", "matchType": "host"}, {OTHER}),
        ({"url": "never.test"}, set()),
    ],
)
def test_a_query_names_a_url_a_prefix_a_host_or_a_domain(web: Web, query: dict[str, str], urls: set[str]) -> None:
    assert {line["url"] for line in lines(web, **query)} == urls


def test_times_limits_and_orders(web: Web) -> None:
    every = [line["timestamp"] for line in lines(web, url=PAGE)]
    assert every == sorted(every)
    assert len(every) == VERSIONS
    assert [line["timestamp"] for line in lines(web, url=PAGE, **{"from": every[3], "to": every[6]})] == every[3:7]
    in_year = [stamp for stamp in every if stamp.startswith("2023")]
    assert [line["timestamp"] for line in lines(web, url=PAGE, **{"from": "2023", "to": "2023"})] == in_year
    assert [line["timestamp"] for line in lines(web, url=PAGE, sort="reverse", limit=2)] == every[:-3:-1]
    assert [line["timestamp"] for line in lines(web, url=PAGE, closest=every[9], limit=1)] == [every[9]]


@pytest.mark.parametrize("limit", ["MAX_RECORDS", "MAX_RECORD_BYTES"])
def test_a_filter_that_refuses_all_does_not_read_the_whole_archive(
    web: Web, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(cdx, limit, 3)
    answer = web.client().get("/c/main/cdx", params={"url": PAGE, "filter": "=status:999"})
    assert (answer.status_code, "captures had to be read" in answer.text) == (400, True)
    if limit == "MAX_RECORDS":
        assert len(lines(web, url=PAGE, limit=3)) == 3


def test_filters_and_fields(web: Web) -> None:
    is_revisit = {line["timestamp"] for line in lines(web, url=PAGE, filter="=mime:warc/revisit")}
    assert len(is_revisit) == (VERSIONS - 1) // 5
    others = {line["timestamp"] for line in lines(web, url=PAGE, filter="!mime:revisit")}
    assert len(others | is_revisit) == VERSIONS
    assert lines(web, url="*.a.test", filter="~status:3..", fl="url,status") == [{"url": MOVED, "status": "302"}]
    assert web.client().get("/c/main/cdx", params={"url": PAGE, "filter": "~status:(("}).status_code == 400
    assert web.client().get("/c/main/cdx", params={"url": PAGE, "fl": "colour"}).status_code == 400
    assert web.client().get("/c/main/cdx", params={"url": PAGE, "from": "2023023"}).status_code == 400


def test_the_wayback_form_has_its_names_and_tables(web: Web) -> None:
    path = "/c/main/cdx/search/cdx"
    found = lines(web, path, url="a.test/moved")
    assert [(line["original"], line["statuscode"], line["mimetype"]) for line in found] == [(MOVED, "302", "text/html")]
    text = web.client().get(path, params={"url": PAGE, "limit": "-2", "fl": "timestamp,original"}).text
    every = [line["timestamp"] for line in lines(web, path, url=PAGE)]
    assert text == "".join(f"{stamp} {PAGE}\n" for stamp in every[-2:])
    assert len(lines(web, path, url=PAGE, collapse="digest")) == VERSIONS - (VERSIONS - 1) // 5
    years = {stamp[:4] for stamp in every}
    assert [line["timestamp"][:4] for line in lines(web, path, url=PAGE, collapse="timestamp:4")] == sorted(years)
    assert len(lines(web, path, url=PAGE, filter="statuscode:2..")) == len(lines(web, url=PAGE, filter="=status:200"))
    assert lines(web, path, url="never.test") == []
