"""robots.txt cases of RFC 9309, Google, protego and crawler-commons, and 1,169 real files.

Every `core` case and every case of the RFC must pass. Where the others disagree the choice is ours; each case that we
answer otherwise is listed with the reason (docs/decisions/0005-robots.md), and the list is exact.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from protego import Protego

from teia.fetch.robots import RobotsRules, parse_robots
from teia.urls import canonicalize
from tests.conformance import upstream
from tests.conftest import missing
from tests.timing import within

CORE_OF_PROTEGO = 289
GOOGLE_BYTES = "RFC 2.2.2 compares what is unescaped; canonical URLs are escaped anyway"
GOOGLE_LINES = "Google cuts lines at 16,664 bytes; we read them whole"
NOT_A_TOKEN = "the agent is no product token, and `courtesy.user_agent` could not be set to it"
UNKNOWN_LINE = "RFC 2.2.4: an unknown line ends no group"
EXACT_NAME = "RFC 2.2.1: a group binds the token it names, not tokens that begin or end like it"
DECIDED_OTHERWISE = {
    116: GOOGLE_BYTES,
    118: GOOGLE_BYTES,
    119: GOOGLE_BYTES,
    194: GOOGLE_LINES,
    197: GOOGLE_LINES,
    303: NOT_A_TOKEN,
    309: NOT_A_TOKEN,
    311: NOT_A_TOKEN,
    314: NOT_A_TOKEN,
    437: UNKNOWN_LINE,
    438: UNKNOWN_LINE,
    439: UNKNOWN_LINE,
    446: NOT_A_TOKEN,
    448: NOT_A_TOKEN,
    449: "a name ends before the first sign that no token holds, so `foo*bot` is `foo`",
    510: EXACT_NAME,
    516: EXACT_NAME,
    517: EXACT_NAME,
    519: EXACT_NAME,
    520: EXACT_NAME,
    728: "a web page is not read as robots.txt with its tags taken away",
    733: NOT_A_TOKEN,
    734: NOT_A_TOKEN,
    735: NOT_A_TOKEN,
    751: NOT_A_TOKEN,
    769: "`useg-agent` could be anything",
}
BOUND_MORE_THAN_PROTEGO = {
    ("hootsuite.com", "googlebot"): "Noindex lines do not end the group, so the rules for `*` bind Googlebot too",
    ("www.congress.gov", "teia"): "a Crawl-delay does not end the group, so the rule for Googlebot binds `*` too",
}


@pytest.fixture(scope="module")
def cases_there(conformance_file: Callable[[str], Path]) -> list[dict[str, Any]]:
    """The cases of all suites; those of Protego alone where scripts/conformance fetched them."""
    found: list[dict[str, Any]] = json.loads(conformance_file(upstream.CASES).read_text("utf-8"))
    return found


@pytest.fixture(scope="module")
def cases(cases_there: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if {case["suite"] for case in cases_there} == {"protego"}:
        missing(upstream.absence(upstream.CASES))
    return cases_there


@pytest.fixture(scope="module")
def aux(conformance_file: Callable[[str], Path]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = json.loads(conformance_file("robots/robots_aux.json").read_text("utf-8"))
    return found


@pytest.fixture(scope="module")
def real_files(conformance_file: Callable[[str], Path]) -> dict[str, bytes]:
    with conformance_file(upstream.REAL_FILES).open(encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    return {
        each["host"]: bytes.fromhex(each["body_hex"]) if "body_hex" in each else each["body"].encode()
        for each in records
    }


def canonical(url: str, *rules: str) -> str:
    """A case's URL as teia would hold it; some are a path alone, one is of another scheme."""
    absolute = url.replace("ftp:", "http:") if "://" in url else f"http://host/{url.removeprefix('/')}"
    found = canonicalize(absolute, rules)
    assert found is not None
    return found


def passes(case: dict[str, Any]) -> bool:
    rules = parse_robots(case["robots"].encode("utf-8", "surrogatepass"), case["agent"], limit_bytes=2**20)
    answers = {rules.allows(canonical(case["url"])), rules.allows(canonical(case["url"], "escapes"))}
    return answers == {case["allowed"]}


def test_every_core_case_passes(cases: list[dict[str, Any]]) -> None:
    core = [case for case in cases if case["core"]]
    assert len(core) == 519
    assert [case["id"] for case in core if not passes(case)] == []


def test_every_case_of_the_rfc_passes(cases: list[dict[str, Any]]) -> None:
    rfc = [case for case in cases if case["suite"] == "rfc9309"]
    assert len(rfc) == 52
    assert [case["id"] for case in rfc if not passes(case)] == []


def test_every_case_of_protego_passes_but_those_that_are_decided_otherwise(cases_there: list[dict[str, Any]]) -> None:
    of_protego = [case for case in cases_there if case["suite"] == "protego"]
    assert (len(of_protego), sum(case["core"] for case in of_protego)) == (376, CORE_OF_PROTEGO)
    numbers = {case["id"] for case in of_protego}
    assert {case["id"] for case in of_protego if not passes(case)} == numbers & set(DECIDED_OTHERWISE)


def test_what_is_disputed_is_decided_once(cases: list[dict[str, Any]]) -> None:
    assert len(cases) == 802
    assert {case["id"] for case in cases if not passes(case)} == set(DECIDED_OTHERWISE)


def test_only_paths_and_queries_are_compared(aux: dict[str, list[dict[str, Any]]]) -> None:
    urls = [case for case in aux["path_and_query_of_url"] if "://" in case["url"]]
    assert len(urls) == 6  # the others have no scheme, and no canonical form
    for case in urls:
        anchored = parse_robots(f"User-agent: *\nDisallow: {case['expected']}$".encode(), "teia")
        assert not anchored.allows(canonical(case["url"])), case


def test_patterns_are_escaped_as_google_does(aux: dict[str, list[dict[str, Any]]]) -> None:
    for case in aux["escape_pattern"]:
        rules = {
            parse_robots(f"User-agent: *\nDisallow: /{pattern}$".encode(), "teia").allows(url)
            for pattern in (case["pattern"], case["expected"])
            for url in [canonical(f"http://host/{case['expected']}")]
        }
        assert rules == {False}, case


@pytest.mark.parametrize("agent", ["foo", "bar", "other"])
def test_every_line_ending_ends_a_line(aux: dict[str, list[dict[str, Any]]], agent: str) -> None:
    assert len(aux["line_endings"]) == 4
    for case in aux["line_endings"]:
        rules = parse_robots(case["robots"].encode(), agent)
        assert rules.allows("http://host/some/path") is (agent != "bar")
        assert rules.allows("http://host/x") is (agent != "bar")


def test_marks_of_byte_order_are_passed_over_even_broken_ones(aux: dict[str, list[dict[str, Any]]]) -> None:
    for case in aux["utf8_bom_hex"]:
        body = bytes.fromhex(case["robots_hex"])
        allow_line_is_read = parse_robots(body + b"Disallow: /\n", "foo").lines == ("Allow: /AnyValue", "Disallow: /")
        assert allow_line_is_read == (case["unknown"] == 0), case


def test_crawl_delays_are_read(aux: dict[str, list[dict[str, Any]]]) -> None:
    assert len(aux["crawl_delay"]) == 6
    for case in aux["crawl_delay"]:
        assert parse_robots(case["robots"].encode(), case["agent"]).crawl_delay_s == case["delay"], case


def test_a_real_file_is_read_in_no_time_and_survives_storage(real_files: dict[str, bytes]) -> None:
    assert len(real_files) == 1_169
    slow = []

    def read_all() -> None:
        for body in real_files.values():
            began_s = time.thread_time()
            rules = parse_robots(body, "teia")
            slow.extend([body] if time.thread_time() - began_s > 1 else [])
            assert rules.allows("http://host/robots.txt")
            assert RobotsRules.from_bytes(rules.to_bytes()) == rules

    within(30, read_all)
    for body in slow:  # once more, in case it was the machine
        within(1, partial(parse_robots, body, "teia"))


def paths_named_in(body: bytes) -> Iterator[str]:
    for pattern in re.findall(r"allow\s*:\s*(/[^\s#]*)", body.decode("utf-8", "replace"), re.IGNORECASE)[:60]:
        url = canonicalize("http://host" + pattern.replace("*", "x").replace("$", ""), ("escapes",))
        if url is not None:
            yield url


@pytest.mark.heavy
def test_real_files_bind_us_as_protego_alone_would_or_more(real_files: dict[str, bytes]) -> None:
    different: Counter[tuple[str, str]] = Counter()
    verdicts = 0
    for host, body in real_files.items():
        whole = Protego.parse(body.decode("utf-8", "replace").removeprefix("\ufeff"))
        for agent in ("teia", "googlebot"):
            ours = parse_robots(body, agent)
            assert ours.crawl_delay_s == whole.crawl_delay(agent)
            for url in paths_named_in(body):
                verdicts += 1
                if ours.allows(url) != whole.can_fetch(url, agent):
                    assert not ours.allows(url)
                    different[host, agent] += 1
    assert verdicts > 40_000
    assert set(different) == set(BOUND_MORE_THAN_PROTEGO)
