"""Malformed answers, ambiguous framing and heads without end, with the outcome of each.

A name says what is wrong; the outcome is the crawler's class for it, always the same.
"""

from __future__ import annotations

from teia.lab.hostile.server import Behaviour, page, repeats, sends

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"

MALFORMED: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "bad_answer"),
    "http-0.9": (b"<html>hello</html>", "bad_answer"),
    "leading-junk": (b"junk\r\n" + page(), "bad_answer"),
    "version-1.2": (b"HTTP/1.2 200 OK\r\nContent-Length: 2\r\n\r\nok", "bad_answer"),
    "status-099": (b"HTTP/1.1 099 OK\r\nContent-Length: 2\r\n\r\nok", "bad_answer"),
    "redirect-of-two-lengths": (
        b"HTTP/1.1 301 Moved\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
        "bad_answer",
    ),
    "status-1000": (b"HTTP/1.1 1000 OK\r\nContent-Length: 2\r\n\r\nok", "bad_answer"),
    "no-colon": (OK + b"nonsense\r\nContent-Length: 2\r\n\r\nok", "bad_answer"),
    "nul-in-header": (OK + b"X: a\0b\r\nContent-Length: 2\r\n\r\nok", "bad_answer"),
    "cr-in-header": (OK + b"X: a\rb\r\nContent-Length: 2\r\n\r\nok", "bad_answer"),
    "status-999": (b"HTTP/1.1 999 Odd\r\nContent-Length: 2\r\n\r\nok", "999"),
    "no-reason": (b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", "200"),
    "bare-lf": (b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", "200"),
    "lower-case-version": (b"http/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "200"),
    "folded-header": (OK + b"X-Folded: a\r\n b\r\nContent-Length: 2\r\n\r\nok", "200"),
    "control-characters": (OK + b"X: a\x01b\r\nContent-Length: 2\r\n\r\nok", "200"),
    "body-on-204": (b"HTTP/1.1 204 No Content\r\n\r\nunwanted", "204"),
    "length-then-more": (OK + b"Content-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad", "200"),
    "empty-page": (OK + b"Content-Length: 0\r\n\r\n", "200"),
    "not-modified-unasked": (b"HTTP/1.1 304 Not Modified\r\n\r\n", "bad_answer"),
    "part-unasked": (
        b"HTTP/1.1 206 Partial\r\nContent-Range: bytes 0-1/9\r\nContent-Length: 2\r\n\r\nok",
        "bad_answer",
    ),
    "switching-protocols": (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\nendless", "bad_answer"),
    "five-interim": (b"HTTP/1.1 103 Early\r\nLink: </x>\r\n\r\n" * 5 + page(b"ok"), "200"),
    "six-interim": (b"HTTP/1.1 103 Early\r\n\r\n" * 6 + page(b"ok"), "bad_answer"),
}

FRAMING: dict[str, tuple[bytes, str]] = {
    "length-and-chunks": (
        OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "bad_answer",
    ),
    "chunks-and-length": (
        OK + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "bad_answer",
    ),
    "two-lengths": (OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nok", "bad_answer"),
    "listed-lengths": (OK + b"Content-Length: 2, 5\r\n\r\nok", "bad_answer"),
    "negative-length": (OK + b"Content-Length: -5\r\n\r\nok", "bad_answer"),
    "signed-length": (OK + b"Content-Length: +2\r\n\r\nok", "bad_answer"),
    "underscore-length": (OK + b"Content-Length: 1_0\r\n\r\n0123456789", "bad_answer"),
    "arabic-digits": (OK + "Content-Length: ٢\r\n\r\nok".encode(), "bad_answer"),
    "words-in-length": (OK + b"Content-Length: 5abc\r\n\r\nokoko", "bad_answer"),
    "huge-length": (OK + b"Content-Length: 99999999999999999999\r\n\r\nok", "bad_answer"),
    "blank-before-colon": (OK + b"Content-Length : 2\r\n\r\nok", "bad_answer"),
    "tab-before-colon": (OK + b"Transfer-Encoding\t: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "bad_answer"),
    "identity-coding": (OK + b"Transfer-Encoding: identity\r\n\r\nok", "bad_answer"),
    "gzip-coding": (OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "bad_answer"),
    "chunked-twice": (OK + b"Transfer-Encoding: chunked\r\n" * 2 + b"\r\n2\r\nok\r\n0\r\n\r\n", "bad_answer"),
    "upper-case-chunked": (OK + b"TRANSFER-ENCODING: Chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "200"),
    "bad-chunk-size": (CHUNKED + b"zz\r\nok\r\n0\r\n\r\n", "bad_answer"),
    "short-body": (OK + b"Content-Length: 10\r\n\r\nok", "bad_answer"),
    "ten-tebibytes-promised": (OK + b"Content-Length: 10995116277760\r\n\r\n0123456789", "bad_answer"),
    "cut-chunk": (CHUNKED + b"a\r\nok", "bad_answer"),
    "missing-last-chunk": (CHUNKED + b"2\r\nok\r\n", "bad_answer"),
    "short-redirect": (b"HTTP/1.1 301 Moved\r\nLocation: /x\r\nContent-Length: 10\r\n\r\nok", "301"),
    "read-to-close": (OK + b"\r\nok", "200"),
}

HEADER_BOMBS: dict[str, Behaviour] = {
    "/long-line": sends(OK + b"X: " + b"a" * 9_000 + b"\r\nContent-Length: 2\r\n\r\nok"),
    "/fifty-megabytes": repeats(OK + b"X: ", b"a" * 65_536, limit_bytes=50 * 2**20),
    "/endless-status-line": repeats(b"HTTP/1.1 200 ", b"a" * 65_536, limit_bytes=50 * 2**20),
    "/hundred-thousand-headers": sends(OK + b"X: y\r\n" * 100_000 + b"\r\nok"),
    "/hundred-and-one-headers": sends(OK + b"X: y\r\n" * 101 + b"\r\nok"),
    "/large-head": sends(OK + (b"X: " + b"a" * 4_000 + b"\r\n") * 20 + b"\r\nok"),
    "/million-interim": repeats(b"", b"HTTP/1.1 103 Early\r\n\r\n" * 1_000, limit_bytes=24 * 10**6),
}
