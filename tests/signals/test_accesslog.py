"""Access logs of proxies and servers: what counts as a hit, and what is never kept."""

from __future__ import annotations

import gzip
import io
from collections import Counter
from pathlib import Path

import pytest

from teia.signals.accesslog import (
    Format,
    Hits,
    count_hits,
    detect_format,
    open_log,
    parse_line,
    read_lines,
    request_url,
)

SQUID = (
    b"1700000000.123    145 10.1.2.3 TCP_MISS/200 5120 GET http://www.a.test/news?id=7"
    b" maria HIER_DIRECT/9.9.9.9 text/html\n"
)
COMMON = b'10.1.2.3 - maria [14/Nov/2023:22:13:20 +0000] "GET /news HTTP/1.1" 200 5120\n'
COMBINED = COMMON.rstrip() + b' "http://b.test/" "Mozilla/5.0 (X11)"\n'
VHOST = b"www.a.test:443 " + COMBINED


def hits(text: bytes, form: Format, site: str = "", *, queries: bool = False) -> Hits:
    found = Hits(Counter(), Counter())
    count_hits(io.BytesIO(text), form, found, site, queries=queries)
    return found


@pytest.mark.parametrize(
    ("line", "form"), [(SQUID, "squid"), (COMMON, "common"), (COMBINED, "combined"), (VHOST, "combined")]
)
def test_a_format_is_recognised_by_its_lines(line: bytes, form: Format) -> None:
    assert detect_format([line] * 3 + [b"\n", b"what is this\n"]) == form
    assert detect_format([b"what is this\n"] * 3) is None
    assert detect_format([]) is None


def test_queries_and_credentials_are_cut_off_unless_they_are_wanted() -> None:
    text = SQUID + SQUID.replace(b"http://www", b"http://maria:secret@www")
    assert hits(text, "squid").urls == {"http://www.a.test/news": 2}
    wanted = hits(SQUID, "squid", queries=True).urls
    assert list(wanted) == ["http://www.a.test/news?id=7"]
    assert "secret" not in str(hits(text, "squid", queries=True))


def test_paths_are_of_the_site_that_is_named_or_of_the_lines_own_host() -> None:
    assert hits(COMBINED, "combined", "https://www.a.test/").urls == {"https://www.a.test/news": 1}
    assert hits(VHOST, "combined", "https://other.test/").urls == {"https://www.a.test/news": 1}
    assert hits(COMBINED, "combined").lines["no_url"] == 1


@pytest.mark.parametrize(
    "line",
    [
        SQUID.replace(b"GET", b"CONNECT").replace(b"http://www.a.test/news?id=7", b"www.a.test:443"),
        SQUID.replace(b"GET", b"POST"),
        SQUID.replace(b"/200", b"/404"),
        SQUID.replace(b"/200", b"/302"),
    ],
)
def test_only_pages_that_were_shown_count(line: bytes) -> None:
    found = hits(line, "squid")
    assert not found.urls
    assert found.lines["not_pages"] == 1


def test_broken_lines_are_counted_and_passed_over() -> None:
    broken = [b"\x00\xff\xfe\n", b"GET /\n", b"x" * 100_000 + b"\n", b'1 - - [now] "GET\n', SQUID[:40] + b"\n"]
    found = hits(b"".join(broken) + SQUID + b"\n", "squid")
    assert found.lines["broken"] == len(broken)
    assert found.urls.total() == 1


def test_other_schemes_are_no_pages() -> None:
    found = hits(SQUID.replace(b"http://www.a.test/news?id=7", b"file:///etc/passwd"), "squid")
    assert not found.urls
    assert found.lines["no_url"] == 1


def test_a_torn_compressed_log_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path, lines = tmp_path / "access.log.gz", Counter[str]()
    path.write_bytes(gzip.compress(SQUID * 5_000)[:-40])
    with open_log(path) as log:
        assert sum(parse_line(line, "squid") is not None for line in read_lines(log, lines)) > 1_000
    assert lines["torn"] == 1


def test_the_client_of_an_access_log_line_is_not_read() -> None:
    asked = parse_line(SQUID, "squid")
    assert asked is not None
    assert "10.1.2.3" not in str(asked)
    assert "maria" not in str(asked)
    assert request_url(asked, "", queries=False) == "http://www.a.test/news"
