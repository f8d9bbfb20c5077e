"""Announcements of caches, logs of servers and pings: any bytes are counted, in any pieces the same."""

from __future__ import annotations

import json
from collections import Counter
from io import BytesIO

from teia.errors import UsageError
from teia.signals.accesslog import FORMATS, Hits, count_hits, detect_format, parse_line
from teia.signals.announce import COUNTS, URLS_AT_ONCE, decode
from teia.signals.indexnow import read_ping
from teia.signals.squid_helper import MAX_LINE_BYTES, Lines, answer, split_cache
from teia.signals.websub import is_signed
from teia.urls import canonicalize
from tests.fuzz.pieces import Pieces, text_of

SEEDS = (
    b"\x01teia-announce 1 cache=a seen=5 dropped=1\nhttp://a.test/1\nhttp://a.test/2",
    b"\x0312 http://a.test/x 127.0.0.1/- - GET myip=1\nhttp://b.test/ - - GET\n",
    b'\x10a.test:443 - - [01/Jan/2024:00:00:00 +0000] "GET /a?b HTTP/1.1" 200 5 "-" "x"\n',
    b"\x401700000000.123    5 10.0.0.1 TCP_MISS/200 500 GET http://a.test/ - HIER_DIRECT/1 text/html\n",
    b'\x05{"host": "a.test", "key": "abcdefgh", "urlList": ["http://a.test/1"], "keyLocation": "http://a.test/k/x.txt"}',
)


def fuzz_one(data: bytes) -> None:
    pieces = Pieces(data)
    step, raw = 1 + pieces.number(), pieces.rest()
    found = decode(raw)
    assert len(found.urls) <= URLS_AT_ONCE
    assert found.counts.keys() <= COUNTS
    whole, parts = Lines(), Lines()
    lines = whole.split(raw)
    if max(map(len, raw.split(b"\n"))) <= MAX_LINE_BYTES:
        assert lines == [line for at in range(0, len(raw), step) for line in parts.split(raw[at : at + step])]
    for line in lines:
        assert answer(line).find(b"\n") == len(answer(line)) - 1
        for form in FORMATS:
            parse_line(line, form)
    form = detect_format(lines[:50])
    if form is not None:
        hits = Hits(Counter(), Counter())
        count_hits(BytesIO(raw), form, hits, "http://a.test/")
        assert all(canonicalize(url) == url for url in hits.urls)
    split_cache(text_of(raw))
    is_signed("secret", text_of(raw), raw)
    _ping(raw)


def _ping(raw: bytes) -> None:
    try:
        said = json.loads(raw)
        ping = read_ping(
            str(said["key"]), list(said["urlList"]), str(said.get("keyLocation", "")), str(said.get("host", ""))
        )
    except (UsageError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, ValueError) and not isinstance(error, (json.JSONDecodeError, UnicodeDecodeError)):
            raise
        return
    assert all(canonicalize(url) == url for url in ping.urls)
