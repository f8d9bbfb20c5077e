"""URLs: the canonical form is stable, ASCII, bounded, and can be taken apart and put together again."""

from __future__ import annotations

from teia.store.surt import surt
from teia.urls import (
    MAX_REFERENCE_CHARS,
    RULES,
    SLOTS,
    canonicalize,
    from_user,
    host_of,
    key_of,
    resolve,
    site_of,
    slot_of,
    split,
)
from tests.fuzz.pieces import text_of

BASE = "http://a.test/d/e?q=1"
SEEDS = (
    b"\x00http://user:pw@EXAMPLE.org:80/a/../b/%7euser/index.html?b=2&a=1&utm_source=x#part",
    b"\x01//b.test./;jsessionid=1/.;sid=2/..?PHPSESSID=abcdefghijklmnop&=&a=",
    b"\x02https://[::ffff:7f00:1]:443/%c3%a9?%66",
    b"\x03http://0x7f.1..:8080/\\x?q=%zz",
    b"\x7fhttp://xn--bcher-kva.example/\xc3\xbc\xe2\x80\x8d",
)


def fuzz_one(data: bytes) -> None:
    text = text_of(data[1:])
    some = tuple(name for number, name in enumerate(RULES) if data[:1] and data[0] >> number & 1)
    for rules in (("escapes", "sessions", "tracking"), tuple(RULES), some, ()):
        for found in (canonicalize(text, rules), resolve(text, BASE, rules)):
            if found is not None:
                _check(found, rules)
    typed = from_user(text)
    if typed is not None:
        assert canonicalize(typed) == typed


def _check(url: str, rules: tuple[str, ...]) -> None:
    assert canonicalize(url, rules) == url, "the canonical form is not stable"
    assert resolve(url, BASE, rules) == url
    assert url.isascii()
    assert all(" " < sign < "\x7f" for sign in url), "a blank or a control character"
    assert len(url) <= MAX_REFERENCE_CHARS
    parts = split(url)
    assert f"{parts.scheme}://{parts.authority}{parts.target}" == url
    assert parts.host == host_of(url)
    assert parts.host
    assert 0 <= parts.port < 65_536
    assert "@" not in parts.authority
    assert "#" not in parts.target
    assert 0 <= slot_of(site_of(parts.host)) < SLOTS
    assert key_of(url) == key_of(url)
    assert "\n" not in surt(url)
