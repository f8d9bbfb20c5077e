"""Canonical form, and what is derived from it. Other people's cases are in tests/conformance/."""

from __future__ import annotations

import hashlib
import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from publicsuffixlist import PSLFILE, PublicSuffixList

from teia import urls
from teia.urls import (
    DEFAULT_RULES,
    MAX_REFERENCE_CHARS,
    RULES,
    SLOTS,
    CanonicalRule,
    Parts,
    canonicalize,
    cell_of,
    cell_starts,
    from_user,
    host_of,
    is_address,
    key_of,
    resolve,
    site_of,
    slot_of,
    split,
)
from tests.timing import within

# ---- what URLs are made of ------------------------------------------------------------------------------------------

LABELS = ["example", "EXAMPLE", "com", "br", "co.uk", "localhost", "bücher", "xn--bcher-kva", "xn--a", "a_b", "-a", "",
          "127", "0x7f", "1", "0177", "%65x", "１２７", "ß", "рф", "a" * 64, "{x}", "!"]  # fmt: skip
ENDS = ["", ".", "..", "。", ":80", ":443", ":8080", ":", ":0", ":65536", ":00080", ".:80", "..:8080", "]"]
PIECES = ["a", "A", "/", "//", ".", "..", "%2e", "%2E%2e", "%", "%2", "%zz", "%25", "%2525", "%c3%a9", "%C3%A9", "%fF",
          "%00", "é", "\\", "%5c", "%2F", "%3b", ";", ";sid=", ";jsessionid=1", ";%73id=x", ";sid=1;sid=2", "?", "&",
          "=", "==", "sid=", "s%69d=", "0123456789abcdef", "&utm_source=x", "%75tm_x", "fbclid", "&&", "#", "%23",
          "%3F", "%26", "|", "^", "{", "}", "<", ">", '"', "'", "`", "[", "]", " ", "\t", "\n", "\r", "\0", "@", ":",
          "+", "~", "%7e", "*", "$", "index.html", "%69ndex.htm", "/default.aspx", "\u202e", "\ud800",
          "\U0001f577"]  # fmt: skip

hosts = st.one_of(
    st.builds(lambda labels, end: ".".join(labels) + end, st.lists(st.sampled_from(LABELS), max_size=4),
              st.sampled_from(ENDS)),
    st.sampled_from(["[::1]", "[::ffff:127.0.0.1]:8080", "[FE80::1]:80", "[::1%25lo]", "2130706433", "0", "127.1"]),
)  # fmt: skip
targets = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
built_urls = st.builds(
    lambda scheme, user, host, target: f"{scheme}{user}{host}{target}",
    st.sampled_from(["http://", "https://", "HTTP://", "http:", "http:/", "https:\\\\", " http://", "ht\ttp://"]),
    st.sampled_from(["", "", "", "user@", "user:pass@", "a@b@", "http://b@", ":@", "%40:%2f@"]),
    hosts,
    st.one_of(st.just(""), targets.map(lambda target: f"/{target}"), targets),
)
any_urls = st.one_of(
    built_urls, st.text(max_size=60), st.text(max_size=40).map(lambda text: f"http://example.com/{text}")
)
rule_sets = st.lists(st.sampled_from(list(RULES)), unique=True).map(tuple)


# ---- canonical form: properties -------------------------------------------------------------------------------------


@given(any_urls, st.one_of(st.just(DEFAULT_RULES), rule_sets))
@settings(max_examples=1_500)
@example("http://x/.;sid=1", DEFAULT_RULES)
@example("http://x/%2e;sid=1%2e/a", DEFAULT_RULES)
@example("http://x/;si;sid=d=1", DEFAULT_RULES)
@example("http://0x7f.1../", DEFAULT_RULES)
@example("http://x/?a===", ("empty-parameters",))
@example("http://x/a//index.html;sid=1/../index.html", tuple(RULES))
def test_canonical_form_is_idempotent(url: str, rules: tuple[str, ...]) -> None:
    once = canonicalize(url, rules)
    if once is not None:
        assert canonicalize(once, rules) == once


@given(any_urls)
@settings(max_examples=1_500)
@example("http://x/a;sid=1")
@example("http://x/%7e")
@example("http://x/?fbclid=1")
def test_the_short_way_for_plain_urls_gives_what_the_rules_give(url: str) -> None:
    """A list is not the tuple that the short way asks for."""
    assert canonicalize(url) == canonicalize(url, list(DEFAULT_RULES))


@given(any_urls, rule_sets)
@settings(max_examples=1_000)
def test_canonical_form_is_clean(url: str, rules: tuple[str, ...]) -> None:
    canonical = canonicalize(url, rules)
    if canonical is None:
        return
    parts = split(canonical)
    assert canonical.isascii()
    assert canonical.isprintable()
    assert not set(" #<>") & set(canonical)
    assert parts.host == parts.host.lower()
    assert not (rules and parts.host.endswith(".")), "only without any rule is it WHATWG's form, dots and all"
    assert "@" not in parts.authority
    assert f"{parts.scheme}://{parts.authority}{parts.target}" == canonical
    assert parts.target == (f"{parts.path}?{parts.query}" if parts.query else parts.path)
    assert 0 <= parts.port <= 65_535


@given(any_urls)
@settings(max_examples=500)
def test_escapes_have_one_spelling(url: str) -> None:
    canonical = canonicalize(url)
    if canonical is None:
        return
    target = split(canonical).target
    assert re.search(r"%(?![0-9A-F]{2})", target) is None
    assert not any(chr(int(octet, 16)).isalnum() for octet in re.findall("%([0-7].)", target))
    assert not set('"<>[]\\^`{|}') & set(target)


@given(st.text(max_size=60), built_urls)
@settings(max_examples=500)
def test_a_resolved_reference_is_canonical(reference: str, base: str) -> None:
    found = resolve(reference, base)
    assert found is None or canonicalize(found) == found


@given(any_urls, any_urls)
@settings(max_examples=500)
def test_an_absolute_url_does_not_depend_on_the_base(url: str, base: str) -> None:
    found = canonicalize(url)
    if found is not None and canonicalize(base) is not None:
        assert resolve(found, base) == found


@given(st.text())
def test_what_a_person_types_never_raises(text: str) -> None:
    typed = from_user(text)
    assert typed is None or canonicalize(typed) == typed


# ---- canonical form: hostile and odd --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["\ud800", "http://\udfff/", "http://x/\ud800", "\0", "http://x\0y/", "http://x/\r\nHost: y", "http://", "://", ""],
)
def test_broken_text_never_raises(text: str) -> None:
    for found in (canonicalize(text), resolve(text, "http://x/"), resolve("/", text), from_user(text)):
        assert found is None or "\n" not in found


@pytest.mark.parametrize("text", ["http://x/" + "a" * 2**20, "a" * 2**20, "http://" + "a." * 2**19 + "/", "/" * 2**20])
def test_a_mebibyte_is_refused_at_once(text: str) -> None:
    found = within(5, lambda: (canonicalize(text), resolve(text, "http://x/"), from_user(text)))
    assert found == (None, None, None)


@pytest.mark.parametrize("piece", [";sid=1", "%2e", "%25", ";", "?a=&", "//", "&sid=", "%", ".;sid=1/", "/index.html"])
@pytest.mark.parametrize("rules", [DEFAULT_RULES, tuple(RULES)], ids=["default", "all"])
def test_the_longest_urls_take_bounded_time(piece: str, rules: tuple[str, ...]) -> None:
    url = "http://x/" + piece * (60_000 // len(piece))
    within(5, lambda: canonicalize(url, rules))


def test_a_url_that_does_not_settle_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(urls.RULES, "restless", CanonicalRule("restless", "grows", path=lambda path: f"{path}a"))
    monkeypatch.setitem(
        urls.RULES, "slow", CanonicalRule("slow", "shrinks", path=lambda path: path.replace("aa", "a", 1))
    )
    assert canonicalize("http://x/", ("restless",)) is None
    assert canonicalize("http://x/" + "a" * urls.MAX_PASSES, ("slow",)) == "http://x/a"
    assert canonicalize("http://x/" + "a" * (urls.MAX_PASSES + 1), ("slow",)) is None


def test_escaping_cannot_make_a_url_that_is_too_long_to_be_read_again() -> None:
    """20,000 letters became 120,000 characters, and the canonical form was refused by `canonicalize`."""
    assert canonicalize("http://x/" + "é" * 20_000) is None
    assert resolve("é" * 20_000, "http://x/") is None
    longest = "http://x/" + "a" * (MAX_REFERENCE_CHARS - len("http://x/"))
    assert canonicalize(longest) == longest


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        ("http://0x7f.1../", "http://127.0.0.1/"),
        ("http://2130706433../", "http://127.0.0.1/"),
        ("http://127.0.0.1./", "http://127.0.0.1/"),
        ("http://1.2.3.4.5../", None),
        ("http://example.com..:8080/", "http://example.com:8080/"),
        ("http://example.com。/", "http://example.com/"),
    ],
)
def test_a_trailing_dot_does_not_hide_an_address(url: str, canonical: str | None) -> None:
    """`0x7f.1..` was cut to `0x7f.1`: a name to the address guard, 127.0.0.1 to whoever parsed it next."""
    assert canonicalize(url) == canonical


@pytest.mark.parametrize(
    "spelling",
    ["127.1", "0x7f.1", "0177.0.0.1", "2130706433", "１２７.0.0.1", "127。0。0。1", "%31%32%37.0.0.1", "127.0.0.1."],
)
def test_every_spelling_of_an_address_is_that_address(spelling: str) -> None:
    assert canonicalize(f"http://public@{spelling}:80/") == "http://127.0.0.1/"


def test_backslash_before_at_sign_is_a_path_not_user_info() -> None:
    assert canonicalize("http://b.test\\@a.test/") == "http://b.test/@a.test/"


def test_user_info_and_fragment_are_dropped() -> None:
    assert canonicalize("https://me:secret@example.com:444/a?b#c") == "https://example.com:444/a?b"


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "FILE:/etc", " file:x", "ftp://x/", "data:,x", "javascript:1", "gopher://x/", "blob:http://x/",
     "view-source:http://x/", "mailto:a@example.com", "ws://x/", "x", "/x", "//x"],
)  # fmt: skip
def test_other_schemes_are_not_crawled(url: str) -> None:
    assert canonicalize(url) is None


# ---- the rules ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "url", "expected"),
    [
        ("escapes", "/%7Euser/%c3%a9%2f?%6b={}", "/~user/%C3%A9%2F?k=%7B%7D"),
        ("escapes", "/100%?50%", "/100%25?50%25"),
        ("sessions", "/a;jsessionid=ABC/b;SID=1;v=2?x=1", "/a/b;v=2?x=1"),
        ("sessions", "/?a=1&PHPSESSID=3&aspsessionidqq=4&sid=0123456789abcdef", "/?a=1"),
        ("sessions", "/?sid=42&side=1", "/?sid=42&side=1"),
        ("sessions", "/?sessionid=1", "/"),
        ("tracking", "/?utm_source=a&id=1&fbclid=2&UTM_X=3", "/?id=1"),
        ("tracking", "/?gclids=1&my_utm_x=2", "/?gclids=1&my_utm_x=2"),
        ("slashes", "/a//b///c?d=//", "/a/b/c?d=//"),
        ("index-file", "/a/index.html", "/a/"),
        ("index-file", "/a/Default.aspx?x=1", "/a/?x=1"),
        ("index-file", "/index.html/a", "/index.html/a"),
        ("empty-parameters", "/?a=&&b&=c", "/?a&b"),
        ("empty-parameters", "/?&", "/"),
        ("sorted-query", "/?b=2&a=1&b=1", "/?a=1&b=1&b=2"),
    ],
)
def test_each_rule_does_what_it_says_and_no_more(rule: str, url: str, expected: str) -> None:
    assert canonicalize(f"http://x{url}", (rule,)) == f"http://x{expected}"
    assert canonicalize(f"http://x{url}", ()) == f"http://x{url}"


def test_a_value_that_ends_in_equal_signs_keeps_them() -> None:
    """Base64 padding was taken for a parameter without a value, one sign per round."""
    assert canonicalize("http://x/?token=YQ==&b==", ("empty-parameters",)) == "http://x/?token=YQ==&b=="


def test_what_a_session_id_hid_is_resolved_too() -> None:
    assert canonicalize("http://x/a/..;sid=1/b") == "http://x/b"
    assert canonicalize("http://x/a/b/.;jsessionid=1") == "http://x/a/b/"


def test_an_unescaped_name_is_still_a_session() -> None:
    assert canonicalize("http://x/?%50HPSESSID=1&a=%32;") == "http://x/?a=2;"


def test_the_order_in_which_rules_are_requested_does_not_matter() -> None:
    url = "http://x/a//%69ndex.html;sid=1?b=&%61=1&utm_id=2"
    assert canonicalize(url, tuple(RULES)) == canonicalize(url, tuple(reversed(RULES))) == "http://x/a/?a=1&b"


# ---- what a person types --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        (" example.com ", "http://example.com/"),
        ("example.com:8080/a", "http://example.com:8080/a"),
        ("localhost:80", "http://localhost/"),
        ("https://EXAMPLE.com", "https://example.com/"),
        ("bücher.de/ä", "http://xn--bcher-kva.de/%C3%A4"),
        ("[::1]:81/x", "http://[::1]:81/x"),
        ("example.com?to=http://x/", "http://example.com/?to=http://x/"),
        ("/a", None),
        ("?a", None),
        ("a b", None),
        ("ftp://example.com", None),
    ],
)
def test_a_typed_seed_may_lack_its_scheme(typed: str, url: str | None) -> None:
    assert from_user(typed) == url


@pytest.mark.parametrize(
    "typed", ["file:/etc/passwd", "ftp:/x", "mailto:joe@example.com", "data:,x", "javascript:alert(1)"]
)
def test_a_typed_scheme_is_not_taken_for_a_host(typed: str) -> None:
    """`file:/etc/passwd` was read as the host `file` with an empty port."""
    assert from_user(typed) is None


# ---- parts ----------------------------------------------------------------------------------------------------------


def test_split_knows_hosts_ports_and_targets() -> None:
    assert split("http://a.b/c?d?e") == Parts("http", "a.b", 80, "/c?d?e")
    assert split("https://[::1]:8443/") == Parts("https", "[::1]", 8443, "/")
    assert split("https://[::1]/") == Parts("https", "[::1]", 443, "/")
    assert split("http://a:443/").authority == "a:443"
    assert split("https://a/p?q?r").path == "/p"
    assert split("https://a/p?q?r").query == "q?r"


def test_the_host_alone_is_that_of_the_parts() -> None:
    for url in (
        "http://a/",
        "https://a/",
        "http://a.b:81/c:d",
        "https://[::1]:8443/",
        "https://[::1]/",
        "http://1.2.3.4/",
    ):
        assert host_of(url) == split(url).host


_QUERY_PIECES = st.sampled_from(
    [
        "?",
        "&",
        "=",
        "x",
        "1",
        "utm_a",
        "UTM_",
        "sid",
        "sid=0123456789abcdef",
        "sidebar",
        "ASPSESSIONIDA",
        "fbclid",
        ";",
        "/",
    ]
)


@given(st.lists(_QUERY_PIECES, max_size=8).map("".join))
def test_the_short_way_for_queries_gives_what_the_rules_give(query: str) -> None:
    url = f"http://a.test/p?{query}"
    assert canonicalize(url) == canonicalize(url, list(DEFAULT_RULES)), "a list is never taken the short way"


# ---- site, slot, cell -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "site"),
    [
        ("a.b.com.br", "b.com.br"),
        ("www.example.co.uk", "example.co.uk"),
        ("example.com", "example.com"),
        ("x.github.io", "x.github.io"),
        ("a.x.github.io", "x.github.io"),
        ("github.io", "github.io"),
        ("com", "com"),
        ("co.uk", "co.uk"),
        ("localhost", "localhost"),
        ("a.b.city.kawasaki.jp", "city.kawasaki.jp"),
        ("a.b.c.kawasaki.jp", "b.c.kawasaki.jp"),
        ("a.www.ck", "www.ck"),
        ("a.b.test.ck", "b.test.ck"),
        ("www.xn--90ax2c.xn--p1ai", "xn--90ax2c.xn--p1ai"),
        ("10.1.2.3", "10.1.2.3"),
        ("[2001:db8::1]", "[2001:db8::1]"),
        ("a.b.no-such-suffix", "b.no-such-suffix"),
    ],
)
def test_site_is_the_registered_domain(host: str, site: str) -> None:
    assert site_of(host) == site


def test_sites_under_every_rule_are_those_of_the_whole_list() -> None:
    """Rules in other scripts are left out where no host is written so."""
    with Path(PSLFILE).open(encoding="utf-8") as file:
        rules = [line.split()[0].lstrip("!*.") for line in file if line.strip() and not line.startswith("//")]
    whole = PublicSuffixList(accept_encoded_idn=True)
    assert any(not rule.isascii() for rule in rules)
    for suffix in (rule.encode("idna").decode() for rule in rules):
        for host in (suffix, f"a.{suffix}", f"b.a.{suffix}", f"xn--90ax2c.a.{suffix}"):
            assert site_of(host) == (whole.privatesuffix(host) or host)


@pytest.mark.parametrize("host", ["a..example.com", ".example.com", "a.b..c..example.com", "...www.example.com"])
def test_empty_labels_do_not_make_new_sites(host: str) -> None:
    """Each of these was a site of its own, so the budget of a site did not hold them together."""
    assert site_of(host) == "example.com"


@given(built_urls)
@settings(max_examples=500)
def test_a_site_is_an_end_of_its_host_and_its_own_site(url: str) -> None:
    canonical = canonicalize(url)
    if canonical is None:
        return
    host = split(canonical).host
    site = site_of(host)
    assert host.endswith(site)
    assert site_of(site) == site
    assert not is_address(host) or site == host
    assert 0 <= slot_of(site) < SLOTS


@pytest.mark.parametrize(
    ("host", "address"), [("1.2.3.4", True), ("[::1]", True), ("1.2.3", False), ("a", False), ("::", True)]
)
def test_addresses_are_distinguished_from_names(host: str, address: bool) -> None:
    assert is_address(host) is address


@given(st.text(alphabet="abcdefghij.-", min_size=1))
def test_slots_keep_the_order_of_the_circle(site: str) -> None:
    digest = int.from_bytes(hashlib.sha1(site.encode()).digest(), "big")
    assert slot_of(site) == digest * SLOTS >> 160


@given(st.integers(1, SLOTS))
def test_every_slot_is_in_exactly_one_cell(cells: int) -> None:
    starts = cell_starts(cells)
    owners = [cell_of(slot, starts) for slot in range(SLOTS)]
    assert sorted(set(owners)) == list(range(cells))
    assert all(after - before in {0, 1} for before, after in pairwise(owners))
    sizes = [owners.count(cell) for cell in range(cells)]
    assert max(sizes) - min(sizes) <= 1


@given(st.sets(st.integers(1, SLOTS - 1)))
def test_any_ranges_hold_every_slot(inner_starts: set[int]) -> None:
    starts = [0, *sorted(inner_starts)]
    for cell, (start, end) in enumerate(pairwise([*starts, SLOTS])):
        assert cell_of(start, starts) == cell_of(end - 1, starts) == cell


@pytest.mark.parametrize("cells", [0, -1, SLOTS + 1])
def test_more_cells_than_slots_are_refused(cells: int) -> None:
    with pytest.raises(ValueError, match="cells must be between"):
        cell_starts(cells)


@given(st.text(alphabet=st.characters(codec="ascii")))
def test_keys_fit_sqlite(url: str) -> None:
    assert -(2**63) <= key_of(url) < 2**63


def test_keys_do_not_change_between_runs() -> None:
    """They are on disk."""
    assert key_of("http://example.com/") == -5081748069831205333
    assert len({key_of(f"http://example.com/{n}") for n in range(10_000)}) == 10_000
