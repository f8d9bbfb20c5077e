from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.clock import from_iso
from teia.parse.dates import parse_date


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("2005", "2005-01-01"),
        ("2005-03", "2005-03-01"),
        ("2005-01-01", "2005-01-01"),
        ("2015-05-03T18:51:50+01:00", "2015-05-03T17:51:50"),
        ("2003-12-13T18:30:02Z", "2003-12-13T18:30:02"),
        ("Thu, 05 Jan 2017 13:34:51 +0100", "2017-01-05T12:34:51"),
        ("05 Jan 17 13:34:55", "2017-01-05T13:34:55"),
    ],
)
def test_dates_of_sitemaps_and_feeds(text: str, iso: str) -> None:
    assert parse_date(text) == from_iso(iso)


@pytest.mark.parametrize("text", ["", "soon", "99999-01-01", "2005-13-01", "x" * 1_000, "0000", "Thu, 99 Jan 2017"])
def test_what_is_no_date_is_none(text: str) -> None:
    assert parse_date(text) is None


@given(st.text(max_size=70))
def test_any_text_is_a_date_or_none(text: str) -> None:
    moment = parse_date(text)
    assert moment is None or math.isfinite(moment)
