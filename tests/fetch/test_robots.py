"""robots.txt: groups, odd bytes, hostile files, and what an answer means. Cases of others: tests/conformance/."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from teia.fetch import robots
from teia.fetch.robots import KEEP_COPY_S, LIMIT_BYTES, Access, RobotsRules, parse_robots, rules_from_answer
from teia.records import Outcome
from teia.urls import canonicalize
from tests.timing import within

ALLOWED, REFUSED = True, False


def allows(body: str | bytes, target: str, agent: str = "teia") -> bool:
    return parse_robots(body if isinstance(body, bytes) else body.encode(), agent).allows(f"http://host{target}")


# ---- groups ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "target", "verdict"),
    [
        ("", "/", ALLOWED),
        ("User-agent: *\nDisallow:", "/", ALLOWED),
        ("User-agent: *\nDisallow: /", "/", REFUSED),
        ("User-agent: *\nDisallow: /", "/robots.txt", ALLOWED),
        ("User-agent: *\nDisallow: /", "/robots.txt?x", ALLOWED),
        ("User-agent: *\nDisallow: /", "/a/robots.txt", REFUSED),
        ("Disallow: /", "/", ALLOWED),
        ("User-agent: TEIA\nDisallow: /", "/", REFUSED),
        ("User-agent: teia/1.0 (+http://x/)\nDisallow: /", "/", REFUSED),
        ("User-agent: teiabot\nDisallow: /", "/", ALLOWED),
        ("User-agent: te\nDisallow: /", "/", ALLOWED),
        ("User-agent: teia2\nDisallow: /", "/", ALLOWED),
        ("User-agent: *\nDisallow: /\n\nUser-agent: teia\n", "/", ALLOWED),
        ("User-agent: teia\nDisallow: /a\nUser-agent: x\nDisallow: /b\nUser-agent: teia\nDisallow: /c", "/c", REFUSED),
        ("User-agent: teia\nDisallow: /a\nUser-agent: x\nDisallow: /b\nUser-agent: teia\nDisallow: /c", "/b", ALLOWED),
        ("User-agent: x\nUser-agent: teia\nDisallow: /", "/", REFUSED),
        ("User-agent: x\n\n\nUser-agent: teia\nDisallow: /", "/", REFUSED),
        ("User-agent: teia\nSitemap: http://x/\nUser-agent: y\nDisallow: /", "/", REFUSED),
        ("User-agent: teia\nAllow:\nUser-agent: y\nDisallow: /", "/", ALLOWED),
        ("User-agent: teia\nDisallow: /\nUser-agent:\nDisallow: /x", "/", REFUSED),
        ("user agent teia\ndissalow /a", "/a", REFUSED),
        ("User-agent : *\n\tDisallow\t:\t/a\t# b", "/a", REFUSED),
        ("Disallowed: /\nUser-agent: *\nDisallows: /\nNoindex: /", "/", ALLOWED),
        ("User-agent: *bot\nDisallow: /", "/", ALLOWED),
        ("User-agent: * # all\nDisallow: /", "/", REFUSED),
    ],
)
def test_the_lines_that_bind_us_are_found(body: str, target: str, verdict: bool) -> None:
    assert allows(body, target) is verdict


@pytest.mark.parametrize(
    ("pattern", "target", "matches"),
    [
        ("/a", "/ab", True),
        ("/a$", "/ab", False),
        ("/*.php$", "/x/y.php", True),
        ("/*.php$", "/x/y.php?z", False),
        ("/a%2fb", "/a%2Fb", True),
        ("/a/b", "/a%2Fb", False),
        ("/%7ejoe", "/~joe", True),
        ("/é", "/%C3%A9", True),
        ("/%2A", "/*", True),
        ("/%2A", "/x", False),
        ("/100%", "/100%25", True),
        ("/100%", "/100", False),
        ("/?x=[1]", "/?x=%5B1%5D", True),
        ("//a", "//a", True),
        ("//a", "/a", False),
        ("/a;b", "/a;b?c", True),
        ("/a b", "/a%20b", True),
        ("a", "/a", False),
    ],
)
def test_patterns_match_canonical_urls(pattern: str, target: str, matches: bool) -> None:
    assert allows(f"User-agent: *\nDisallow: {pattern}", target) is not matches


def test_the_longest_pattern_wins_and_allow_wins_a_tie() -> None:
    body = "User-agent: *\nDisallow: /a\nAllow: /a/b\nDisallow: /a/b/c\nDisallow: /x\nAllow: /x"
    assert [allows(body, target) for target in ("/a", "/a/b", "/a/b/c", "/x")] == [False, True, False, True]


def test_an_odd_host_does_not_matter() -> None:
    rules = parse_robots(b"User-agent: *\nDisallow: /a", "teia")
    for url in ("http://[::1]:80/a", "https://x/a", "http://{}!/a", "http://a:8080/a?b", "http://x/a?u=http://y/z"):
        canonical = canonicalize(url)
        assert canonical is not None
        assert not rules.allows(canonical)


# ---- bytes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\n\r", "\r\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_any_line_end_and_any_unicode_is_read(end: str, encoding: str) -> None:
    body = end.join(["User-agent: *", "Disallow: /ação", "Allow: /"]).encode(encoding)
    assert not allows(body, "/a%C3%A7%C3%A3o")
    assert allows(body, "/x")


def test_utf16_of_the_other_order_is_read() -> None:
    assert not allows(b"\xfe\xff" + "User-agent: *\nDisallow: /".encode("utf-16-be"), "/")


def test_latin1_binds_as_bytes_and_as_letters() -> None:
    body = "User-agent: *\nDisallow: /ação".encode("latin-1")
    assert not allows(body, "/a%E7%E3o")
    assert not allows(body, "/a%C3%A7%C3%A3o")
    assert allows(body, "/a%C3%A7")


def test_only_cr_and_lf_end_a_line() -> None:
    """Python would also split at U+2028, form feed and others, and read a rule where the file has none."""
    for sign in ("\u2028", "\x85", "\x0b", "\x1c"):
        assert allows(f"User-agent: *\nDisallow: /a{sign}Disallow: /b", "/b")


def test_web_pages_and_binaries_bind_nothing() -> None:
    assert allows("<!DOCTYPE html><html><head><title>Not found</title></head><body>User-agent: *</body>", "/")
    assert allows(bytes(range(256)) * 40, "/")


def test_what_is_beyond_the_limit_is_not_read_and_no_line_is_cut() -> None:
    head = b"User-agent: *\nDisallow: /a\nAllow: /private"
    assert not allows(head, "/a")
    rules = parse_robots(head + b"-not\nDisallow: /b\n", "teia", limit_bytes=len(head))
    assert rules.lines == ("Disallow: /a",)
    assert parse_robots(b"User-agent: *", "teia", limit_bytes=5).lines == ()


def test_five_mebibytes_are_read_to_the_limit() -> None:
    line = b"Disallow: /0123456789\n"
    body = b"User-agent: *\nDisallow: /first\n" + line * (5 * 2**20 // len(line)) + b"Disallow: /last\n"
    assert len(body) > 10 * LIMIT_BYTES
    assert not allows(body, "/first")
    assert allows(body, "/last")


@given(st.binary(max_size=400), st.text(alphabet="abAB-_*", min_size=1, max_size=3))
def test_no_bytes_raise_and_storage_keeps_everything(body: bytes, agent: str) -> None:
    rules = parse_robots(b"User-agent: *\nDisallow: /" + body, agent, checked_s=12.5)
    rules.allows("http://x/a?b=%C3%A9")
    assert RobotsRules.from_bytes(rules.to_bytes()) == rules


LINES = """User-agent: *|User-agent: teia|User-agent: other|Disallow: /|Disallow: /a*b$|Allow: /é|Allow: /a
Crawl-delay: 3|Crawl-delay: x|Sitemap: http://x/s#1|Noindex: /|#||\ufeff|disallow""".replace("\n", "|").split("|")


@given(st.lists(st.sampled_from(LINES), max_size=20), st.sampled_from(["teia", "*", "nobody"]))
@settings(max_examples=300)
@example(["User-agent: teia", "Crawl-delay: 3", "User-agent: *", "Disallow: /"], "teia")
def test_stored_rules_answer_like_the_file(lines: list[str], agent: str) -> None:
    rules = parse_robots("\n".join(lines).encode(), agent)
    stored = RobotsRules.from_bytes(rules.to_bytes())
    assert stored == rules
    for target in ("/", "/a", "/axb", "/axbc", "/%C3%A9"):
        assert stored.allows(f"http://x{target}") is rules.allows(f"http://x{target}")


@pytest.mark.parametrize(
    "head", ["", "User-agent: *", *(f"# teia-robots {end}" for end in ("2 read 0", "1 shut 0", "1 read x"))]
)
def test_what_we_did_not_store_is_a_value_error(head: str) -> None:
    with pytest.raises(ValueError):
        RobotsRules.from_bytes(f"{head}\nUser-agent: *\n".encode())


# ---- hostile files --------------------------------------------------------------------------------------------------


def test_many_names_times_many_rules_are_not_multiplied() -> None:
    """protego alone takes 50 s for this file."""
    names = "\n".join(f"User-agent: b{number}" for number in range(6_000))
    rules = "\n".join(f"Disallow: /{number}" for number in range(6_000))
    within(2, lambda: parse_robots(f"{names}\n{rules}".encode(), "teia"))
    within(2, lambda: parse_robots(f"{names}\nUser-agent: *\n{rules}".encode(), "teia"))


@pytest.mark.parametrize(
    "rule",
    [
        "/*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b",
        "/" + "*a" * 120_000 + "b",
        "/*{number}z",
        "/*" + "a" * 40 + "b" + "a" * 40 + "{number}",
        "/{number}*$",
        "/{number}",
        "/a",
    ],
)
def test_no_file_makes_matching_slow(rule: str) -> None:
    lines = (f"Disallow: {rule.format(number=number)}" for number in range(100_000))
    body = "User-agent: *\n"
    for line in lines:
        body += line + "\n"
        if len(body) > LIMIT_BYTES:
            break
    rules = within(3, lambda: parse_robots(body.encode(), "teia"))
    within(1, lambda: rules.allows("http://host/" + "a" * 2_000))


def test_too_many_wildcards_close_the_host() -> None:
    few = "User-agent: *\nAllow: /\n" + "\n".join(f"Disallow: /*{number}z" for number in range(1_000))
    assert allows(few, "/a")
    many = few + "\n".join(f"Disallow: /*{number}z" for number in range(robots.MAX_WILDCARD_BYTES // 10))
    assert not allows(many, "/a")
    assert parse_robots(many.encode(), "teia").lines == ("Disallow: /",)


# ---- Crawl-delay and sitemaps ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "delay_s"),
    [
        ("86400", 86_400.0),
        ("0.2", 0.2),
        (".5", 0.5),
        ("10 # s", 10.0),
        ("10s", 10.0),
        ("0", 0.0),
        ("-1", None),
        ("NaN", None),
        ("inf", None),
        ("", None),
        ("soon", None),
        ("١٠", None),
        ("1e99", robots.MAX_DELAY_S),
        ("9" * 400, robots.MAX_DELAY_S),
        ("1e99999", robots.MAX_DELAY_S),
    ],
)
def test_nonsense_delays_are_ignored_and_endless_ones_stay_finite(text: str, delay_s: float | None) -> None:
    assert parse_robots(f"User-agent: *\nCrawl-delay: {text}".encode(), "teia").crawl_delay_s == delay_s


def test_of_two_delays_for_us_the_longer_holds() -> None:
    body = b"User-agent: teia\nCrawl-delay: 9\nCrawl-delay: 2\nDisallow:\n\nUser-agent: teia\nCrawl-delay: 4"
    assert parse_robots(body, "teia").crawl_delay_s == 9


def test_the_delay_of_another_crawler_is_not_ours() -> None:
    body = b"User-agent: *\nCrawl-delay: 2\n\nUser-agent: slow\nCrawl-delay: 7200\n\nUser-agent: y\nDisallow: /"
    rules = parse_robots(body, "teia")
    assert rules.crawl_delay_s == 2
    assert not rules.allows("http://x/")


def test_sitemaps_belong_to_everyone_and_are_bounded() -> None:
    body = "Sitemap: http://x/0\nUser-agent: other\nDisallow: /\n" + "\n".join(f"sitemap: /{n}.xml" for n in range(900))
    sitemaps = parse_robots(body.encode(), "teia").sitemaps
    assert len(sitemaps) == robots.MAX_SITEMAPS
    assert sitemaps[:2] == ("http://x/0", "/0.xml")


def test_a_sitemap_that_is_no_text_is_left_out() -> None:
    assert parse_robots(b"Sitemap: http://x/\xff\nSitemap:\nSitemap: http://x/\0", "teia").sitemaps == ()


# ---- what an answer means -------------------------------------------------------------------------------------------


def answer(outcome: str, status: int = 0, body: bytes = b"", **known: object) -> RobotsRules:
    return rules_from_answer(outcome, status, body, "teia", **known)  # type: ignore[arg-type]  # each test names them


DISALLOW_A = b"User-agent: *\nDisallow: /a"


@pytest.mark.parametrize("status", [200, 204, 206, 299])
def test_success_is_parsed(status: int) -> None:
    rules = answer(str(status), status, DISALLOW_A, now_s=7.0)
    assert (rules.access, rules.checked_s) == (Access.READ, 7.0)
    assert not rules.allows("http://x/a")
    assert rules.allows("http://x/b")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 418, 451, 499])
def test_client_errors_allow_everything(status: int) -> None:
    rules = answer(str(status), status, b"User-agent: *\nDisallow: /")
    assert rules.access is Access.UNAVAILABLE
    assert rules.allows("http://x/a")


def test_gone_is_a_client_error() -> None:
    assert answer(Outcome.GONE, 410).allows("http://x/")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_sixth_redirect_is_unavailable(status: int) -> None:
    assert answer(str(status), status).access is Access.UNAVAILABLE
    assert answer(Outcome.REDIRECT_LOOP, status).access is Access.UNAVAILABLE


NO_ANSWER = [Outcome.TIMEOUT, Outcome.DNS, Outcome.TLS, Outcome.CONNECT, Outcome.BAD_ANSWER, Outcome.SYSTEM]
FAILURES = [
    *((str(status), status) for status in (100, 304, 429, 500, 503, 599, 999)),
    *((outcome, 0) for outcome in NO_ANSWER),
    (Outcome.TIMEOUT, 200),
    (Outcome.BLOCKED_ADDRESS, 302),
]


@pytest.mark.parametrize(("outcome", "status"), FAILURES)
def test_failures_disallow_everything(outcome: str, status: int) -> None:
    rules = answer(outcome, status, b"")
    assert rules.unreachable
    assert not rules.allows("http://x/a")
    assert rules.allows("http://x/robots.txt")
    assert RobotsRules.from_bytes(rules.to_bytes()).unreachable


@pytest.mark.parametrize(("outcome", "status"), [pair for pair in FAILURES if pair[1] != 304])
def test_a_good_copy_outlives_failures_for_thirty_days(outcome: str, status: int) -> None:
    copy = answer("200", 200, DISALLOW_A, now_s=1_000.0)
    kept = answer(outcome, status, previous=copy, now_s=1_000.0 + KEEP_COPY_S)
    assert kept is copy
    assert answer(outcome, status, previous=kept, now_s=1_001.0 + KEEP_COPY_S).unreachable
    assert answer(outcome, status, previous=copy, now_s=1_011.0, keep_copy_s=10.0).unreachable


def test_a_stored_copy_is_as_good() -> None:
    copy = RobotsRules.from_bytes(answer("200", 200, DISALLOW_A, now_s=5.0).to_bytes())
    assert answer("503", 503, previous=copy, now_s=9.0) is copy


@pytest.mark.parametrize(("outcome", "status"), [("404", 404), ("500", 500)])
def test_only_a_file_is_a_copy(outcome: str, status: int) -> None:
    """That there was none yesterday does not let us in today."""
    assert answer("503", 503, previous=answer(outcome, status), now_s=1.0).unreachable


def test_a_new_file_or_its_absence_replaces_the_copy() -> None:
    copy = answer("200", 200, DISALLOW_A)
    assert answer("200", 200, b"User-agent: *\nDisallow: /b", previous=copy).allows("http://x/a")
    assert answer("404", 404, previous=copy).allows("http://x/a")


def test_not_modified_renews_the_copy() -> None:
    copy = answer("200", 200, DISALLOW_A, now_s=1.0)
    renewed = answer("304", 304, previous=copy, now_s=50.0)
    assert (renewed.lines, renewed.checked_s, renewed.access) == (copy.lines, 50.0, Access.READ)
    assert not renewed.allows("http://x/a")


def test_a_file_cut_at_the_limit_of_the_fetcher_still_binds() -> None:
    assert not answer(Outcome.TOO_LARGE, 200, DISALLOW_A).allows("http://x/a")


def test_a_partial_file_after_a_time_out_does_not_count() -> None:
    assert answer(Outcome.TIMEOUT, 200, b"User-agent: *\nAllow: /").unreachable


@pytest.mark.parametrize(
    ("url", "line"),
    [
        ("http://h.test/", ""),
        ("http://h.test/a", "Disallow: /a"),
        ("http://h.test/a/b", "Allow: /a/b"),
        ("http://h.test/x.pdf", "Disallow: /*.pdf$"),
        ("http://h.test/same", "Allow: /same"),
    ],
)
def test_the_line_that_decides_is_named(url: str, line: str) -> None:
    body = b"User-agent: *\nDisallow: /a\nAllow: /a/b\nDisallow: /*.pdf$\nDisallow: /same\nAllow: /same\nDisallow:\n"
    rules = parse_robots(body, "teia")
    assert rules.line_for(url) == line
    assert rules.allows(url) == (not line.startswith("Disallow"))
