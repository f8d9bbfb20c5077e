"""Documents with the body of a recent one: what is found is the same as if there were none."""

from __future__ import annotations

import dataclasses
import hashlib

import pytest

from teia.parse import document as document_module
from teia.parse.document import ParseOptions
from teia.parse.parse import ParseResult, parse_document
from teia.parse.recent import RecentDocuments

OPTIONS = ParseOptions()
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
BODY = """<!doctype html><html lang=en><head><title>A page</title><meta name=description content="About it">
<link rel=canonical href="./"><link rel=next href="2.html"></head><body><h1>First</h1><h2>Second</h2>
<p>Words of <a href="../a.html">one</a>, <a href="../a.html#x">one again</a>, <a href="b.html"></a>
<a href="b.html">two</a> <a href="#top">top</a> <a href="?q=1">query</a> <a href="mailto:a@b.test">mail</a>
<a href="/c.html" rel=nofollow>three</a> <a href="/c.html">four</a> <img src=x.png> caf\u00e9</body></html>""".encode()
URLS = ("http://a.test/de/x.html", "http://a.test/fr/x.html", "http://b.test/other/y.html", "http://a.test/de/a.html")


def parsed(url: str, body: bytes, recent: RecentDocuments | None, head: bytes = HEAD) -> ParseResult:
    digest = hashlib.sha256(body).hexdigest()
    return parse_document(url, head, body, OPTIONS, body_sha256=digest, recent=recent)


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Payloads that were scanned."""
    scanned: list[bytes] = []
    scan = document_module.scan

    def note(markup: bytes, *, want_text: bool) -> object:
        scanned.append(markup)
        return scan(markup, want_text=want_text)

    monkeypatch.setattr(document_module, "scan", note)
    return scanned


@pytest.mark.parametrize("body", [BODY, BODY.replace(b"</head>", b"<base href='http://c.test/d/'></head>")])
def test_a_body_is_scanned_once_and_everything_is_found_at_every_url(body: bytes, scans: list[bytes]) -> None:
    expected = [parsed(url, body, None).page for url in URLS]
    del scans[:]
    recent = RecentDocuments()
    for _ in range(2):
        assert [parsed(url, body, recent).page for url in URLS] == expected
    assert scans == [body]
    assert len({page.links for page in expected}) > 1 or b"<base" in body


def test_another_encoding_or_other_options_are_read_anew(scans: list[bytes]) -> None:
    recent = RecentDocuments()
    one = parsed(URLS[0], BODY, recent).page
    other = parsed(URLS[0], BODY, recent, HEAD.replace(b"utf-8", b"windows-1252")).page
    assert (one.charset, other.charset) == ("utf-8", "windows-1252")
    assert one.text != other.text
    without_text = dataclasses.replace(OPTIONS, want_text=False)
    digest = hashlib.sha256(BODY).hexdigest()
    found = parse_document(URLS[0], HEAD, BODY, without_text, body_sha256=digest, recent=recent)
    assert found.page.text == ""
    assert len(scans) == 3


def test_only_recent_pages_that_were_scanned_are_remembered() -> None:
    recent = RecentDocuments(memory_bytes=224_000)
    bodies = [BODY.replace(b"A page", b"Page %d" % number) for number in range(12)]
    for body in bodies:
        parsed(URLS[0], bodies[0], recent)
        parsed(URLS[0], body, recent)
    found = [recent.find(hashlib.sha256(body).hexdigest()) is not None for body in bodies]
    assert found[0], "it was used"
    assert found[-1]
    assert not all(found)
    misnested = b"<p><a href=x>one<table><a href=y>two</a></table></a>"
    result = parsed(URLS[0], misnested, recent)
    assert result.page.links
    assert recent.find(hashlib.sha256(misnested).hexdigest()) is None, "a tree takes too much memory"


def test_small_pages_count_with_the_memory_that_they_take() -> None:
    """Seen: 3,300 pages of one line in 60 MB, where 16 were allowed; each counted as 5 kB and took 28."""
    recent = RecentDocuments(memory_bytes=1 << 20)
    for number in range(100):
        parsed(URLS[0], f"<!doctype html><title>{number}</title><p>Page {number}.".encode(), recent)
    assert 20 <= len(recent._documents) <= (1 << 20) / 28_000
