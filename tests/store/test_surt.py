from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.store.surt import surt
from tests.timing import within


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("http://example.com", "com,example)/"),
        ("http://www.example.com/", "com,example)/"),
        ("https://WWW2.Example.com:443/", "com,example)/"),
        ("http://wwwexample.com/", "com,wwwexample)/"),
        ("http://a.b.example.com.br/Page.HTML", "br,com,example,b,a)/page.html"),
        ("http://example.com:8080/", "com,example:8080)/"),
        ("https://example.com:80/", "com,example:80)/"),
        ("http://user:secret@example.com/", "com,example)/"),
        ("http://example.com/a#part", "com,example)/a"),
        ("http://example.com/a/", "com,example)/a"),
        ("http://example.com//a///b", "com,example)/a/b"),
        ("http://example.com/a/./b/../c", "com,example)/a/c"),
        ("http://example.com/?", "com,example)/"),
        ("http://example.com/?b=2&a=1", "com,example)/?a=1&b=2"),
        ("http://example.com/?a=&a=1&a", "com,example)/?a&a=&a=1"),
        ("http://example.com/?Q=X", "com,example)/?q=x"),
        ("http://example.com/%7Efoo", "com,example)/~foo"),
        ("http://example.com/%c3%a9", "com,example)/%c3%a9"),
        ("http://example.com/é", "com,example)/%c3%a9"),
        ("http://example.com/a%20b", "com,example)/a%20b"),
        ("http://example.com/a%25%32%35b", "com,example)/a%25b"),
        ("http://bücher.example/", "example,xn--bcher-kva)/"),
        ("http://127.0.0.1/", "1,0,0,127)/"),
        ("http://example.com/?jsessionid=0123456789abcdef0123456789ABCDEF", "com,example)/"),
        ("http://example.com/?a=1&PHPSESSID=0123456789abcdef0123456789abcdef&b=2", "com,example)/?a=1&b=2"),
        ("http://example.com/?cfid=1&cftoken=2&x=3", "com,example)/?x=3"),
        ("http://example.com/(S(4hqa0555fwsecu455xqckv45))/mileg.aspx", "com,example)/mileg.aspx"),
        ("http://example.com/(4hqa0555fwsecu455xqckv45)/mileg.aspx", "com,example)/mileg.aspx"),
        ("dns:example.com", "dns:example.com"),
        ("no url", "no%20url"),
    ],
)
def test_key(url: str, key: str) -> None:
    assert surt(url) == key


def test_pages_of_a_domain_stand_together() -> None:
    urls = ["http://b.com/", "http://x.a.com/", "http://a.com/z", "http://a.com/", "http://a.com.br/"]
    assert sorted(urls, key=surt) == [
        "http://a.com.br/",
        "http://a.com/",
        "http://a.com/z",
        "http://x.a.com/",
        "http://b.com/",
    ]


@given(st.text(max_size=60))
def test_any_text_has_a_key_without_blanks_or_line_ends(text: str) -> None:
    for url in (text, f"http://a.test/{text}", f"http://a.test/?{text}"):
        key = surt(url)
        assert key.isascii()
        assert not set(key) & set(" \r\n\t\0")


def test_nested_escapes_cost_no_more_than_they_should() -> None:
    within(2, lambda: surt("http://a.test/%" + "25" * 30_000 + "?%" + "25" * 30_000))
