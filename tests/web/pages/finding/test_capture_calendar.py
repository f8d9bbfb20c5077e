"""The calendar of a page's captures."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from teia.frontier.tables.pages import VisitEntry
from teia.web.access.roles import Role
from teia.web.pages.finding.capture_calendar import make_calendar
from tests.web.conftest import Web


def visit(when: str, digest: bytes) -> VisitEntry:
    at_s = datetime.fromisoformat(when).replace(tzinfo=UTC).timestamp()
    return VisitEntry(at_s, "200", digest, None, "a.warc.gz", 0, 1)


def test_captures_are_arranged_by_year_and_day() -> None:
    times = ("2024-12-31T23:59:59", "2025-02-03T01:00", "2025-02-03T09:00", "2025-11-04T06:12")
    visits = [visit(when, digest) for when, digest in zip(times, (b"a", b"a", b"b", b"b"), strict=True)]
    found = make_calendar("http://a.test/", "main", visits, 0, "2025-02-03", 0.0)
    assert [(each.year, each.number) for each in found.years] == [(2024, 1), (2025, 3)]
    assert found.year == 2025
    assert [(each.day, each.number, each.versions) for each in found.days] == [
        ("2025-02-03", 2, 1),
        ("2025-11-04", 1, 0),
    ]
    assert found.chosen is not None
    assert [each.is_version for each in found.chosen.captures] == [False, True]
    assert found.day_of(11, 4) is not None
    assert found.day_of(11, 5) is None
    assert found.months[1][0] == [0, 0, 0, 0, 0, 1, 2], "February 2025 begins on a Saturday"
    assert make_calendar("http://a.test/", "main", visits, 2024, "", 0.0).days[0].day == "2024-12-31"


@pytest.mark.heavy
def test_a_day_of_the_calendar_leads_to_the_capture(web: Web) -> None:
    client, url = web.client(), web.some_url()
    calendar = client.get("/api/v1/c/main/calendar", params={"url": url}).json()
    (day,) = calendar["days"]
    page = client.get("/c/main/calendar", params={"url": url}).text
    assert page.count('class="month"') == 12
    assert "/c/main/copy?" in page
    (capture,) = day["captures"]
    assert client.get("/api/v1/c/main/copy", params={"url": url, "time": capture["time"]}).json()["is_exact"]
    assert "/calendar?" in client.get("/c/main/page", params={"url": url}).text
    empty = client.get("/c/main/calendar", params={"url": url, "year": 1999}).text
    assert 'class="changed"' not in empty.partition("months")[2]
    assert client.get("/c/main/calendar", params={"url": "http://unknown.test/"}).status_code == 200
    assert web.client(Role.VIEWER).get("/c/main/calendar", params={"url": "mailto:a@b.test"}).status_code == 400
