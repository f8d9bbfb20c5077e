"""Answers that are not pages: errors, redirects, faults and files that are not indexed, one per kind of T8's table."""

from __future__ import annotations

from teia.lab.text.prose import Lexicon
from teia.lab.world.exchange import Answer, Fault
from teia.lab.world.hosts import Host
from teia.lab.world.media import archive, sound
from teia.lab.world.spec import ErrorsSpec
from teia.lab.world.url_kinds import Kind
from teia.lab.world.urlspace import UrlSpace

# A TLS alert (fatal, protocol version) on a plain HTTP port, as some servers send it.
_GARBAGE = b"\x15\x03\x01\x00\x02\x02\x46 this is not HTTP\r\n\r\n"
_EXTRA_HEADERS = {
    Kind.UNAUTHORIZED: b'WWW-Authenticate: Basic realm="lab"\r\n',
    Kind.UNAVAILABLE: b"Retry-After: 120\r\n",
}
_FILES = {
    b".zip": ("application/zip", archive(b"An archive that no crawler wants.\n")),
    b".mp3": ("audio/mpeg", sound()),
}


def headers_of(host: Host, media_type: str) -> bytes:
    """Return the header lines that every answer of a host with a body has."""
    return f"Server: {host.server}\r\nContent-Type: {media_type}\r\n".encode()


def html_headers(host: Host) -> bytes:
    """Return the header lines that all HTML of a host has."""
    charset = f"; charset={host.charset}" if host.charset_told_by != "meta" else ""
    return headers_of(host, f"text/html{charset}") + (b"Vary: Accept-Encoding\r\n" if host.gzip else b"")


def error_page(lexicon: Lexicon, phrase: str, status: int) -> bytes:
    """Return the short page that goes with an error."""
    text = lexicon.phrases[phrase]
    return b"<!DOCTYPE html>\n<title>%d %b</title>\n<h1>%d</h1>\n<p>%b.</p>\n" % (status, text, status, text)


def moved_page(lexicon: Lexicon, phrase: str, urls: list[bytes]) -> bytes:
    """Return the page that goes with a redirect, or with several choices."""
    text = lexicon.phrases[phrase]
    escaped = [url.replace(b"&", b"&amp;") for url in urls]
    items = b"".join(b'<li><a href="%b">%b</a></li>\n' % (url, url) for url in escaped)
    return b"<!DOCTYPE html>\n<title>%b</title>\n<p>%b:</p>\n<ul>\n%b</ul>\n" % (text, text, items)


class Failures:
    """Makes the answers of all kinds that have no text of their own."""

    def __init__(self, spec: ErrorsSpec) -> None:
        self._silent_s = spec.silent_s
        self._large_bytes = spec.large_bytes
        self._large = b""

    def answer(self, kind: Kind, space: UrlSpace, slot: int) -> Answer:
        """Answer a URL whose kind is neither a page nor a redirect."""
        if kind is Kind.RESET:
            return Answer(0, b"", fault=Fault.RESET)
        if kind is Kind.SILENT:
            return Answer(0, b"", delay_s=self._silent_s, fault=Fault.SILENT)
        if kind is Kind.GARBAGE:
            return Answer(0, b"", _GARBAGE, fault=Fault.GARBAGE)
        if kind is Kind.TOO_LARGE:
            return Answer(200, html_headers(space.host), self._large_body())
        if kind is Kind.FORBIDDEN_TYPE:
            media_type, body = _FILES[space.path(slot)[-4:]]
            return Answer(200, headers_of(space.host, media_type), body)
        if kind is Kind.NO_CONTENT:
            return Answer(204, b"")
        status = int(kind)
        phrase = "not_found" if kind is Kind.NOT_FOUND else "error"
        headers = html_headers(space.host) + _EXTRA_HEADERS.get(kind, b"")
        return Answer(status, headers, error_page(space.lexicon, phrase, status))

    def _large_body(self) -> bytes:
        """Return the body of all URLs that are too large, made at the first request."""
        if not self._large:
            line = b"<p>An endless page, of which only the size matters.</p>\n"
            self._large = (line * (self._large_bytes // len(line) + 1))[: self._large_bytes]
        return self._large
