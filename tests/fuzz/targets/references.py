"""References of documents, compiled: every one means what the URL parser says, also the second time."""

from __future__ import annotations

from teia.parse.html.base import Base
from teia.urls import MAX_REFERENCE_CHARS, canonicalize, resolve
from tests.fuzz.pieces import text_of

SEEDS = (
    b"http://a.test/d/e/f.html\n../../g/./h?q=1&sid=2#part",
    b"https://a.test:8443/x%20y/z\nhttps://a-b.c1.test/x/..y/.z?a=/b:c",
    b"http://[::1]/\n//b.test/./?utm_source=x",
    b"http://a.test/\nhttp://a--b.test./x//y",
)


def fuzz_one(data: bytes) -> None:
    first, _, rest = data.partition(b"\n")
    page, reference = canonicalize(text_of(first)) or "http://a.test/d/e?q=1", text_of(rest)
    reached = reference.partition("#")[0] if len(reference) <= MAX_REFERENCE_CHARS else reference
    for rules in (("escapes", "sessions", "tracking"), ()):
        base, expected = Base(page, rules), resolve(reached, page, rules)
        assert base.resolve(reference) == expected
        assert base.resolve(reference) == expected, "the second time it is remembered"
