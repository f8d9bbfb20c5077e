"""Answers that are not pages: errors, redirects, faults and files that are not indexed, one per kind of T8's table."""

from __future__ import annotations

from teia.lab.text.prose import Lexicon
from teia.lab.world.exchange import ServerFault, WorldAnswer
from teia.lab.world.hosts import WorldHost
from teia.lab.world.media import archive, sound
from teia.lab.world.spec import ErrorsSpec
from teia.lab.world.url_kinds import UrlKind
from teia.lab.world.urlspace import UrlSpace

# A TLS alert (fatal, protocol version) on a plain HTTP port, as some servers send it.
_GARBAGE = b"\x15\x03\x01\x00\x02\x02\x46 this is not HTTP\r\n\r\n"
_EXTRA_HEADERS = {
    UrlKind.UNAUTHORIZED: b'WWW-Authenticate: Basic realm="lab"\r\n',
    UrlKind.UNAVAILABLE: b"Retry-After: 120\r\n",
}
_FILES = {
    b".zip": ("application/zip", archive(b"An archive that no crawler wants.\n")),
    b".mp3": ("audio/mpeg", sound()),
}


def headers_of(host: WorldHost, media_type: str) -> bytes:
    """Return the header lines that every answer of a host with a body has."""
    return f"Server: {host.server}\r\nContent-Type: {media_type}\r\n".encode()


def html_headers(host: WorldHost) -> bytes:
    """Return the header lines that all HTML of a host has."""
    charset = f"; charset={host.charset}" if host.charset_declared_in != "meta" else ""
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

    def answer(self, kind: UrlKind, space: UrlSpace, slot: int) -> WorldAnswer:
        """Answer a URL whose kind is neither a page nor a redirect."""
        if kind is UrlKind.RESET:
            return WorldAnswer(0, b"", fault=ServerFault.RESET)
        if kind is UrlKind.SILENT:
            return WorldAnswer(0, b"", delay_s=self._silent_s, fault=ServerFault.SILENT)
        if kind is UrlKind.GARBAGE:
            return WorldAnswer(0, b"", _GARBAGE, fault=ServerFault.GARBAGE)
        if kind is UrlKind.TOO_LARGE:
            return WorldAnswer(200, html_headers(space.host), self._large_body())
        if kind is UrlKind.FORBIDDEN_TYPE:
            media_type, body = _FILES[space.path(slot)[-4:]]
            return WorldAnswer(200, headers_of(space.host, media_type), body)
        if kind is UrlKind.NO_CONTENT:
            return WorldAnswer(204, b"")
        status = int(kind)
        phrase = "not_found" if kind is UrlKind.NOT_FOUND else "error"
        headers = html_headers(space.host) + _EXTRA_HEADERS.get(kind, b"")
        return WorldAnswer(status, headers, error_page(space.lexicon, phrase, status))

    def _large_body(self) -> bytes:
        """Return the body of all URLs that are too large, made at the first request."""
        if not self._large:
            line = b"<p>An endless page, of which only the size matters.</p>\n"
            self._large = (line * (self._large_bytes // len(line) + 1))[: self._large_bytes]
        return self._large
