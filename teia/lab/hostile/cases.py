"""Hostile behaviours by the entry of the catalogue (docs/security.md), each on a host and a path of its own.

Every body has the token of its case, so that a mixed-up answer is noticed. `outcome` is what a crawl records for the
case's URL; an empty one stands for one of several.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from teia.lab.hostile.answers import CHUNKED, FRAMING, HEADER_BOMBS, MALFORMED, OK
from teia.lab.hostile.server import Behaviour, page, repeats, says_nothing, sends, sends_then_resets

HTML = b"Content-Type: text/html; charset=utf-8"
REDIRECTS = (301, 302, 303, 307, 308)
SCHEMES = (
    "file:/etc/passwd", "file://localhost/etc/passwd", "file:///etc/passwd", "FILE:///etc/passwd", " file:///etc/passwd",
    "ftp://ftp.test/", "data:text/html,<a href=http://x.test/>x</a>", "javascript:alert(1)", "gopher://g.test/",
    "view-source:http://x.test/", "jar:http://x.test!/", "ws://x.test/",
)  # fmt: skip
SPELLINGS = (
    "127.66.0.1", "127.66.1", "127.4325377", "2134900737", "0x7f.0x42.0.1", "0x7f420001", "0177.0102.0.1",
    "127.66.00.1", "127.66.0.1.", "[::ffff:127.66.0.1]", "[::ffff:7f42:1]", "[0:0:0:0:0:FFFF:127.66.0.1]",
    "[64:ff9b::7f42:1]", "[2002:7f42:1::]", "public@127.66.0.1", "127.66.0.1%2f", "%31%32%37.66.0.1",
    "１２７.66.0.1", "127。66。0。1",
)  # fmt: skip
"""The forbidden address 127.66.0.1 as a page may write it."""

ODD_URLS = (
    "http://a.test/" + "x" * 100_000, "http://a.test/\0", "http://a.test/a\r\nb", "http:\\\\a.test\\b", "http://a.test/%zz",
    "http://a.test/%c0%ae", "http://user:pass@a.test/", f"http://{'l' * 64}.test/", "http://xn--zz--.test/",
    "http://p\u0430ypal.test/", "http://a.test/\u202egpj.exe", "http://a.test:99999/", "http://a..test/", "//", "http://",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class HostileCase:
    """One behaviour: the catalogue's entry, a name, and the outcome of its URL in a crawl."""

    entry: int
    name: str
    behaviour: Behaviour
    outcome: str

    @property
    def host(self) -> str:
        return f"{self.name}.test"

    @property
    def path(self) -> str:
        return f"/{self.name}"

    @property
    def token(self) -> str:
        return f"token-of-{self.name}-end"


def hostile_cases(inside: str) -> list[HostileCase]:
    """Return all cases; `inside` is the address and port that no request may reach."""
    return [
        *_leading_inside(inside),
        *(HostileCase(11, name, sends(answer), outcome) for name, (answer, outcome) in FRAMING.items()),
        # A kept connection that closes without a word may have closed before the request came.
        *(
            HostileCase(15, name, sends(answer), outcome if answer else "")
            for name, (answer, outcome) in MALFORMED.items()
        ),
        *(HostileCase(14, path[1:], behaviour, "bad_answer") for path, behaviour in HEADER_BOMBS.items()),
        *_bombs(),
        *_endless_and_slow(),
        *_loops(),
        *_partial(),
        *_documents(),
        *_injections(),
    ]


def _html(case: str, markup: str = "", *headers: bytes, status: bytes = b"200 OK") -> bytes:
    body = f"<html><title>{case}</title><body><p>token-of-{case}-end</p>{markup}".encode("utf-8", "surrogateescape")
    return page(body, HTML, *headers, status=status)


def _leading_inside(inside: str) -> Iterator[HostileCase]:
    port = inside.rpartition(":")[2]
    links = "".join(f'<a href="http://{spelling}:{port}/spelt/{at}">x</a>' for at, spelling in enumerate(SPELLINGS))
    yield HostileCase(2, "spellings", sends(_html("spellings", links)), "200")
    based = f'<base href="http://{inside}/base/"><a href="linked">x</a><link rel="canonical" href="canonical">'
    yield HostileCase(1, "base", sends(_html("base", based)), "200")
    frames = f'<iframe src="http://{inside}/frame"></iframe><img src="http://{inside}/image">'
    yield HostileCase(1, "embedded", sends(_html("embedded", frames)), "200")
    urls = f"<url><loc>http://{inside}/sitemap</loc></url>"
    sitemap = page(f"<urlset>{urls}</urlset>".encode(), b"Content-Type: text/xml")
    yield HostileCase(1, "sitemap", sends(sitemap), "200")
    feed = f"<rss><channel><item><link>http://{inside}/feed</link></item></channel></rss>"
    yield HostileCase(1, "feed", sends(page(feed.encode(), b"Content-Type: application/rss+xml")), "200")
    for status in REDIRECTS:
        to = f"Location: http://{inside}/redirect/{status}".encode()
        yield HostileCase(5, f"to-{status}", sends(page(b"moved", to, status=b"%d Moved" % status)), str(status))
    relative = page(b"moved", f"Location: //{inside}/relative".encode(), status=b"302 Found")
    yield HostileCase(5, "to-relative", sends(relative), "302")
    yield HostileCase(
        5, "refresh", sends(_html("refresh", "", f"Refresh: 0; url=http://{inside}/header".encode())), "200"
    )
    meta = f'<meta http-equiv="refresh" content="0; url=http://{inside}/meta">'
    yield HostileCase(5, "meta-refresh", sends(_html("meta-refresh", meta)), "200")
    others = "".join(f"<a href='{scheme}'>x</a>" for scheme in SCHEMES)
    yield HostileCase(6, "schemes", sends(_html("schemes", others)), "200")
    for at, scheme in enumerate(SCHEMES[:6]):
        to = f"Location: {scheme.strip()}".encode()
        yield HostileCase(6, f"scheme-{at}", sends(page(b"moved", to, status=b"302 Found")), "302")


def _bombs() -> Iterator[HostileCase]:
    zeros, raw = b"\0" * (8 << 20), zlib.compressobj(9, zlib.DEFLATED, -15)
    deflated = raw.compress(zeros) + raw.flush()
    packed = gzip.compress(zeros, 6)
    bombs = {
        "gzip-bomb": (packed, b"gzip"),
        "deflate-bomb": (deflated, b"deflate"),
        "gzip-in-gzip": (gzip.compress(packed), b"gzip, gzip"),
        "many-codings": (b"x", b"gzip, gzip, gzip, gzip, gzip, gzip"),
        "not-gzip-at-all": (b"<p>plain", b"gzip"),
    }
    for name, (body, coding) in bombs.items():
        yield HostileCase(10, name, sends(page(body, HTML, b"Content-Encoding: " + coding)), "200")
    sitemap = page(packed, b"Content-Type: application/gzip")
    yield HostileCase(30, "sitemap-bomb", sends(sitemap), "200")


def _endless_and_slow() -> Iterator[HostileCase]:
    chunk = b"1000\r\n" + b"a" * 0x1000 + b"\r\n"
    yield HostileCase(12, "endless-chunks", repeats(CHUNKED, chunk), "too_large")
    yield HostileCase(12, "endless-body", repeats(b"HTTP/1.0 200 OK\r\n\r\n", b"a" * 65_536), "too_large")
    for kind in ("multipart/x-mixed-replace; boundary=x", "text/event-stream"):
        start = OK + f"Content-Type: {kind}\r\n\r\n".encode()
        yield HostileCase(12, f"endless-{kind[:4]}", repeats(start, b"--x\r\ndata: x\r\n\r\n" * 1_000), "too_large")
    drip = partial(repeats, piece=b"a", every_s=0.2, limit_bytes=100)
    yield HostileCase(13, "silent", says_nothing, "timeout")
    yield HostileCase(13, "drip-status", drip(b"HTTP/1.1 200"), "timeout")
    yield HostileCase(13, "drip-head", drip(OK + b"X: "), "timeout")
    yield HostileCase(13, "drip-body", drip(OK + b"Content-Length: 5000\r\n\r\n"), "timeout")


def _loops() -> Iterator[HostileCase]:
    def to(path: str, *headers: bytes) -> Behaviour:
        return sends(page(b"moved", b"Location: " + path.encode(), *headers, status=b"302 Found"))

    yield HostileCase(17, "to-itself", to("/to-itself"), "redirect_loop")
    yield HostileCase(17, "cookie-gate", to("/cookie-gate", b"Set-Cookie: seen=1"), "redirect_loop")
    yield HostileCase(17, "ping", to("http://pong.test/pong"), "302")
    yield HostileCase(17, "pong", to("http://ping.test/ping"), "302")
    meta = '<meta http-equiv="refresh" content="0; url=/meta-loop">'
    yield HostileCase(17, "meta-loop", sends(_html("meta-loop", meta, b"Refresh: 0; url=/meta-loop")), "200")


def _partial() -> Iterator[HostileCase]:
    yield HostileCase(19, "reset", sends_then_resets(OK + b"Content-Length: 10\r\n\r\nok"), "bad_answer")
    error = _html("error-page", "<a href='/never'>x</a>", status=b"500 Oops")
    yield HostileCase(19, "error-page", sends(error), "500")
    two = _html("two-answers") + _html("two-answers", "<p>token-of-nobody-end</p>")
    yield HostileCase(16, "two-answers", sends(two, keep=True), "200")


def _documents() -> Iterator[HostileCase]:
    flood = "".join(f"<a href='http://flood.invalid/{at}'>x</a>" for at in range(10_000))
    yield HostileCase(28, "flood", sends(_html("flood", flood)), "200")
    odd = "".join(f'<a href="{url}">x</a>' for url in ODD_URLS)
    yield HostileCase(29, "odd-urls", sends(_html("odd-urls", odd)), "200")
    entity = (
        '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><urlset><url><loc>http://x.test/&a;</loc></url></urlset>'
    )
    yield HostileCase(30, "sitemap-doctype", sends(page(entity.encode(), b"Content-Type: text/xml")), "200")
    yield HostileCase(31, "deep", sends(_html("deep", "<div>" * 30_000)), "200")
    yield HostileCase(31, "wide", sends(_html("wide", f"<p {' '.join(f'a{at}=b' for at in range(20_000))}>")), "200")
    for charset in ("utf-7", "unicode_escape", "zlib", "idna", "x" * 5_000, "utf-16"):
        name = f"charset-{charset[:14].replace('_', '-')}"
        body = page(f"<p>token-of-{name}-end".encode(), f"Content-Type: text/html; charset={charset}".encode())
        yield HostileCase(32, name, sends(body), "200")
    for name, kind, data in (
        ("html-as-image", b"image/png", b"<html><a href='/hidden'>x</a>"),
        ("zip-as-html", b"text/html", b"PK\x03\x04" + bytes(range(256)) * 40),
        ("svg", b"image/svg+xml", b"<svg xmlns='http://www.w3.org/2000/svg'><script>fetch('/')</script></svg>"),
        ("no-type", b"", b"<p>token-of-no-type-end"),
        ("polyglot", b"application/pdf", b"%PDF-1.4\n<html><script>alert(1)</script>"),
    ):
        yield HostileCase(33, name, sends(page(data, b"Content-Type: " + kind)), "200")


def _injections() -> Iterator[HostileCase]:
    record = b"WARC/1.1\r\nWARC-Type: response\r\nContent-Length: 0\r\n\r\n\r\n\r\n"
    yield HostileCase(35, "record-in-body", sends(page(b"\r\n\r\n" + record * 3, HTML)), "200")
    location = page(b"moved", b"Location: /x%0d%0aWARC-Type:%20response", status=b"302 Found")
    yield HostileCase(35, "record-in-location", sends(location), "302")
    reason = b"HTTP/1.1 200 OK\tWARC/1.1\x0bx\r\nServer: a\x0bWARC/1.1\r\nContent-Length: 2\r\n\r\nok"
    yield HostileCase(35, "record-in-reason", sends(reason), "200")
    kind = page(b"<p>x", b'Content-Type: text/html; charset="a\\"b\x0bWARC/1.1"')
    yield HostileCase(35, "record-in-type", sends(kind), "200")
