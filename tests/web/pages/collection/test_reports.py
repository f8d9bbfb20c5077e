"""Reports and SQL on the web (UX 2.10)."""

from __future__ import annotations

import csv
import importlib
import io
import pkgutil
import re
from dataclasses import MISSING, fields, is_dataclass, replace
from typing import Any

import pytest

from teia.frontier.cell.schema import FOUND_BY, STATE_NAMES
from teia.frontier.traps.detector import WatchReason
from teia.frontier.traps.url_shapes import TRAP_RULES
from teia.views import reports
from teia.views.reports.catalogue import REPORTS, unit_of
from teia.views.reports.outcomes import DESCRIPTIONS
from teia.views.reports.traps import STATUS_NAMES
from teia.web.access.roles import Role
from teia.web.pages.collection.reports import SqlView
from tests.web.conftest import Web
from tests.web.messages import LOCALES, current


@pytest.mark.parametrize("name", REPORTS)
def test_every_report_has_a_page_a_twin_and_a_file(web: Web, name: str) -> None:
    client = web.client(Role.VIEWER)
    twin = client.get(f"/api/v1/c/main/reports/{name}").json()
    assert twin["report"] == name
    page = client.get(f"/c/main/reports/{name}")
    assert page.status_code == 200, page.text
    assert " style=" not in page.text
    assert client.get(f"/c/main/reports/{name}/csv").headers["content-type"].startswith("text/csv")


def test_a_report_says_what_the_command_says(web: Web) -> None:
    client = web.client(Role.VIEWER)
    twin = client.get("/api/v1/c/main/reports/outcomes").json()
    assert (twin["count"], twin["requests"]) == (4, 4)
    assert [(row["outcome"], row["count"]) for row in twin["rows"]] == [("200", 4)]
    page = client.get("/c/main/reports/outcomes").text
    assert "100.0% of 4 URLs were there at their last visit." in page
    (row,) = csv.DictReader(io.StringIO(client.get("/c/main/reports/outcomes/csv").text))
    assert (row["outcome"], row["count"]) == ("200", "4")


def test_a_report_that_is_not_there_is_reported(web: Web) -> None:
    answer = web.client(Role.VIEWER).get("/api/v1/c/main/reports/weather")
    assert answer.status_code == 404
    assert "outcomes" in answer.json()["message"]
    assert web.client(Role.VIEWER).get("/c/main/reports").headers["location"] == "/c/main/reports/outcomes"


# ---- SQL ------------------------------------------------------------------------------------------------------------


@pytest.mark.heavy
def test_sql_answers_what_reads(web: Web) -> None:
    client = web.client(Role.VIEWER)
    query = "SELECT host, count(*) AS n FROM fetches GROUP BY ALL"
    twin = client.get("/api/v1/c/main/sql", params={"q": query}).json()
    assert (twin["columns"], twin["rows"], twin["cut"]) == (["host", "n"], [["x.test", 5]], False)
    assert "x.test" in client.get("/c/main/sql", params={"q": query}).text
    assert client.get("/c/main/sql.csv", params={"q": query}).text == "host,n\nx.test,5\n"
    urls = client.get("/api/v1/c/main/sql", params={"q": "SELECT count(*) FROM pages"}).json()
    assert urls["rows"] == [[4]]


@pytest.mark.heavy
@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM fetches",
        "SELECT 1; SELECT 2",
        "COPY fetches TO '/tmp/x'",
        "SELECT * FROM read_text('/etc/passwd')",
        "ATTACH '/tmp/x.db'",
        "SELECT nonsense FROM nowhere",
        "{{7*7}}",
    ],
)
def test_sql_refuses_everything_else_and_keeps_what_was_typed(web: Web, query: str) -> None:
    """RELIABILITY 42."""
    client = web.client(Role.VIEWER)
    answer = client.get("/api/v1/c/main/sql", params={"q": query})
    assert answer.status_code == 400
    assert "root:" not in answer.text
    page = client.get("/c/main/sql", params={"q": query})
    assert page.status_code == 200
    assert 'role="alert"' in page.text
    assert "49" not in page.text.partition("<form action")[2].partition("</form>")[0]


@pytest.mark.heavy
def test_sql_is_stopped_when_it_takes_too_long(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teia.web.limits.SQL_S", 0.2)
    query = "SELECT sum(a.range * b.range) FROM range(1000000) AS a, range(1000000) AS b"
    answer = web.client(Role.VIEWER).get("/api/v1/c/main/sql", params={"q": query})
    assert answer.status_code == 400
    assert "longer than 0.2 s" in answer.json()["message"]


@pytest.mark.heavy
def test_what_a_spreadsheet_would_take_for_a_formula_is_text(web: Web) -> None:
    answer = web.client(Role.VIEWER).get("/c/main/sql.csv", params={"q": "SELECT '=1+1' AS a, -1 AS b, '@x' AS c"})
    assert answer.text == "a,b,c\n'=1+1,-1,'@x\n"


# ---- words ----------------------------------------------------------------------------------------------------------


def static_sentences() -> set[str]:
    """The sentences that reports have in themselves."""
    found: set[str] = set()
    for each in pkgutil.iter_modules(reports.__path__):
        for value in vars(importlib.import_module(f"teia.views.reports.{each.name}")).values():
            if isinstance(value, type) and is_dataclass(value):
                found |= _defaults(value)
    return found


def _defaults(record: Any) -> set[str]:
    given = {field.name: field.default for field in fields(record) if field.default is not MISSING}
    notes = given.get("notes", ())
    return {*notes, *([given["method"]] if "method" in given else [])}


def test_reports_can_be_translated() -> None:
    said = {message.id for message in current(LOCALES[0])}
    assert static_sentences() <= said
    assert set(DESCRIPTIONS.values()) <= said
    assert {str(doubt) for doubt in WatchReason if doubt} <= said
    assert {rule.name for rule in TRAP_RULES} <= said
    assert {*FOUND_BY, *STATE_NAMES, *STATUS_NAMES.values()} <= said


def test_a_report_comes_in_portuguese(web: Web) -> None:
    page = web.client(Role.VIEWER).get("/c/main/reports/coverage", headers={"accept-language": "pt"}).text
    assert "A estimativa depende" in page
    assert "The estimate" not in page


def test_the_figures_of_the_freshness_report_have_portuguese_names(web: Web) -> None:
    page = web.client(Role.VIEWER).get("/c/main/reports/freshness", headers={"accept-language": "pt"}).text
    names = re.findall("<dt>(.*?)</dt>", page)
    assert (names.count("erro"), names.count("error"), names.count("true")) == (1, 0, 0), names
    assert "real (laboratório)" in names


@pytest.mark.parametrize(
    ("name", "unit"), [("share", "share"), ("wire_bytes", "size"), ("rest_s", "span"), ("code", "code"), ("count", "")]
)
def test_the_name_of_a_field_says_its_unit(name: str, unit: str) -> None:
    assert unit_of(name) == unit


@pytest.mark.heavy
def test_sql_shows_its_tables_examples_that_run_and_sorts_by_a_column(web: Web) -> None:
    client = web.client(Role.VIEWER)
    twin = client.get("/api/v1/c/main/sql").json()
    assert {name: columns[0]["name"] for name, columns in twin["tables"].items()} == {
        "fetches": "started", "pages": "url", "hosts": "host",
    }  # fmt: skip
    page = client.get("/c/main/sql").text
    assert '<code>media_type</code> <span translate="no">string</span>' in page
    assert 'href="/c/main/reports/outcomes"' in page, "the reports stay in view"
    for query in twin["examples"].values():
        assert client.get("/api/v1/c/main/sql", params={"q": query}).status_code == 200, query
    found = client.get("/c/main/sql", params={"q": "SELECT url, host, depth FROM pages"})
    assert '<a href="/c/main/hosts/x.test">' in found.text
    assert '<td class="url"><a href="/c/main/page?url=' in found.text
    query = "SELECT * FROM (VALUES (1), (3), (2)) AS t (a);"
    view = SqlView(query, ["a"], [], False, "", 1, 1.0, {}, {})
    down = view.sorted_by(1)
    up = replace(view, query=down).sorted_by(1)
    rows = [client.get("/api/v1/c/main/sql", params={"q": each}).json()["rows"] for each in (down, up)]
    assert rows == [[[3], [2], [1]], [[1], [2], [3]]]
    assert replace(view, query=up).sorted_by(1) == down, "the query does not grow"


@pytest.mark.parametrize("name", ["outcomes", "errors", "space"])
def test_a_report_shows_requests_over_a_chosen_time_range(web: Web, name: str) -> None:
    client = web.client(Role.VIEWER)
    twin = client.get(f"/api/v1/c/main/reports/{name}?window=24h").json()
    assert (twin["window"], twin["activity"]["requests"]) == ("24h", 4)
    page = client.get(f"/c/main/reports/{name}?window=24h").text
    assert 'id="activity-chart"' in page
    assert re.search(r'window=24h" aria-current="true"', page)
    assert client.get(f"/c/main/reports/{name}?window=week").status_code == 400


def test_growth_hosts_types_and_servers_have_a_chart(web: Web) -> None:
    client = web.client(Role.VIEWER)
    for name in ("hosts", "types", "servers", "space"):
        assert 'class="chart" id="chart"' in client.get(f"/c/main/reports/{name}").text, name


@pytest.mark.heavy
def test_the_hints_of_duckdb_are_shown(web: Web) -> None:
    client = web.client(Role.VIEWER)
    page = client.get("/c/main/sql", params={"q": "SELECT * FROM fetchs"}).text
    assert "Did you mean &#34;fetches&#34;?" in page
    assert "LINE 1" not in page
    answer = client.get("/api/v1/c/main/sql", params={"q": "SELECT outcom FROM fetches"}).json()
    assert 'Candidate bindings: "outcome"' in answer["message"]


@pytest.mark.parametrize("name", REPORTS)
def test_notes_explain_words_that_the_tables_show(web: Web, name: str) -> None:
    """A note begins with the word of a heading; keys of the JSON are not shown, so no note names them."""
    twin = web.client(Role.VIEWER).get(f"/api/v1/c/main/reports/{name}").json()
    notes = re.sub("`[^`]+`", "", " ".join([*twin["notes"], twin.get("method") or ""]))
    assert not re.search(r"\b[a-z]+_[a-z_]+\b", notes), "a key of the JSON"
    assert not re.search(r"\b[TACFP][0-9]+\b", notes), "a number of a paper's table"
    headings = current("pt_BR")
    explained = re.findall(r"(?:^|[.;] )([A-Z][^.:;]{1,40}):", notes)
    shown = {str(each.id).lower() for each in headings if "templates/report.html" in str(each.locations)}
    assert [word for word in explained if word.lower() not in shown | ASIDES] == []


ASIDES = {"for comparison", "(1) being linked", "the estimate depends on these assumptions"}
"""What stands before a colon and is no heading."""
