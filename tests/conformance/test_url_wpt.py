"""The web platform's own URL tests (WHATWG), against `canonicalize` and `resolve`.

What does not apply here: setters_tests.json (teia never changes one part of a URL), and every column of
percent-encoding.json but utf-8 (links reach us as text, and a query is always sent as UTF-8).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from teia.urls import DEFAULT_RULES, canonicalize, resolve, split

NOT_CRAWLED = {
    "http://./": "a host of dots alone names nothing",
    "http://../": "a host of dots alone names nothing",
    "http://foo.09..": "without its trailing dots it ends in a number that is no address, which WHATWG refuses",
}


def cases(file: Path) -> list[dict[str, Any]]:
    """The objects of a list in which text is commentary."""
    return [each for each in json.loads(file.read_text("utf-8")) if isinstance(each, dict)]


@pytest.fixture(scope="module")
def parser_cases(conformance: Path) -> list[dict[str, Any]]:
    return cases(conformance / "url/wpt/urltestdata.json")


def ours(case: dict[str, Any], rules: tuple[str, ...] = DEFAULT_RULES) -> str | None:
    if case.get("base") is None:
        return canonicalize(case["input"], rules)
    return resolve(case["input"], case["base"], rules)


def is_http(case: dict[str, Any]) -> bool:
    return case.get("protocol") in {"http:", "https:"}


def without_what_we_drop(case: dict[str, Any]) -> str:
    """WHATWG's form less user info, fragment and a `?` with nothing after it."""
    port = f":{case['port']}" if case["port"] else ""
    return f"{case['protocol']}//{case['hostname']}{port}{case['pathname']}{case['search']}"


def test_there_are_as_many_cases_as_the_readme_says(parser_cases: list[dict[str, Any]]) -> None:
    assert len(parser_cases) == 891
    assert sum(bool(case.get("failure")) for case in parser_cases) == 267
    assert sum(is_http(case) for case in parser_cases) == 247


def test_every_failure_is_refused(parser_cases: list[dict[str, Any]]) -> None:
    failures = [case for case in parser_cases if case.get("failure")]
    accepted = [case["input"] for case in failures if ours(case) is not None or ours(case, ()) is not None]
    assert accepted == []


def test_every_other_scheme_is_refused(parser_cases: list[dict[str, Any]]) -> None:
    others = [case for case in parser_cases if not case.get("failure") and not is_http(case)]
    assert [case["input"] for case in others if ours(case) is not None] == []


def test_without_rules_it_is_the_whatwg_form(parser_cases: list[dict[str, Any]]) -> None:
    different = {c["input"]: ours(c, ()) for c in parser_cases if is_http(c) and ours(c, ()) != without_what_we_drop(c)}
    assert different == {}


def test_a_reference_and_its_whatwg_form_have_one_canonical_form(parser_cases: list[dict[str, Any]]) -> None:
    for case in filter(is_http, parser_cases):
        found = ours(case)
        assert found == canonicalize(case["href"]), case
        assert (found is None) == (case["input"] in NOT_CRAWLED), case


def test_scheme_host_and_port_are_those_of_the_case(parser_cases: list[dict[str, Any]]) -> None:
    for case in filter(is_http, parser_cases):
        found = ours(case)
        if found is None:
            continue
        parts = split(found)
        default = 443 if case["protocol"] == "https:" else 80
        wanted = (case["protocol"][:-1], case["hostname"].rstrip("."), int(case["port"] or default))
        assert (parts.scheme, parts.host, parts.port) == wanted, case


@pytest.mark.parametrize(("file", "count"), [("toascii.json", 87), ("IdnaTestV2.json", 2_671)])
def test_host_names_become_ascii_or_are_refused(conformance: Path, file: str, count: int) -> None:
    hosts = cases(conformance / "url/wpt" / file)
    assert len(hosts) == count
    for case in hosts:
        bare = (case["output"] or "").rstrip(".")
        assert canonicalize(f"http://{case['input']}/") == (f"http://{bare}/" if bare else None), case


def test_queries_are_percent_encoded_as_utf8(conformance: Path) -> None:
    encodings = cases(conformance / "url/wpt/percent-encoding.json")
    assert len(encodings) == 7
    for case in encodings:
        expected = case["output"]["utf-8"]
        assert canonicalize(f"http://x/?{case['input']}", ()) == f"http://x/?{expected}", case
        tidy = expected.replace("\\", "%5C").replace("|", "%7C")
        assert canonicalize(f"http://x/?{case['input']}") == f"http://x/?{tidy}", case
