"""What another crawler library (crawler-commons) expects of normalising and resolving URLs.

Cases that differ are listed by their line with the reason, and the lists are exact: a listed case that begins to pass
fails the test.
"""

from __future__ import annotations

import csv
from pathlib import Path

from teia.urls import canonicalize, from_user, resolve

RULES = ("escapes", "slashes", "empty-parameters", "sorted-query")
"""What their normaliser does; it removes neither session identifiers nor tracking parameters by default."""

NORMALIZED_OTHERWISE = {
    135: "file: is not crawled",
    136: "ftp: is not crawled",
    138: "http: without a host is nothing that could be fetched",
    139: "http: without a host is nothing that could be fetched",
    176: "text without a scheme is not a URL; `from_user` forgives it",
    178: "ftp: is not crawled",
    179: "file: is not crawled",
    185: "file: is not crawled",
    186: "file: is not crawled",
}
RESOLVED_OTHERWISE = {
    18: "user info and fragment are dropped",
    30: "file: is not crawled",
    36: "the fragment is dropped",
}


def rows(file: Path) -> dict[int, list[str]]:
    """Fields by line number; lines that begin with `#` are comments."""
    lines = file.read_text("utf-8").split("\n")
    return {
        number: next(csv.reader([line], skipinitialspace=True))
        for number, line in enumerate(lines, start=1)
        if line and not line.startswith("#")
    }


def test_weird_urls_become_normal_ones(conformance: Path) -> None:
    cases = rows(conformance / "url/crawler-commons/weirdToNormalizedUrls.csv")
    assert len(cases) == 112
    different = {n for n, (weird, normal) in cases.items() if canonicalize(weird, RULES) != normal}
    assert different == set(NORMALIZED_OTHERWISE)


def test_text_without_a_scheme_is_forgiven_where_a_person_typed_it(conformance: Path) -> None:
    weird, normal = rows(conformance / "url/crawler-commons/weirdToNormalizedUrls.csv")[176]
    assert from_user(weird) == normal


def test_references_are_resolved(conformance: Path) -> None:
    cases = rows(conformance / "url/crawler-commons/url-resolve.csv")
    assert len(cases) == 22
    different = {
        number
        for number, (reference, base, expected) in cases.items()
        if (resolve(reference, base, ()) if base else canonicalize(reference, ())) != expected
    }
    assert different == set(RESOLVED_OTHERWISE)


def test_invalid_urls_are_refused(conformance: Path) -> None:
    cases = rows(conformance / "url/crawler-commons/invalidUrls.csv")
    assert [canonicalize(url) for (url,) in cases.values()] == [None, None]
