from __future__ import annotations

import pytest

from teia import urls
from teia.fetch.fetcher import FetchRequest
from teia.fetch.wire import Pin, pin_for, recipient_of, request_head, request_headers


def test_pin_always_begins_with_a_plus_and_takes_the_last_one_away() -> None:
    first, dashed = Pin("a.test:80", "127.77.0.1"), Pin("-a.test:80", "127.77.0.2")
    assert first.replacing(None) == ["+a.test:80:127.77.0.1"]
    assert dashed.replacing(first) == ["-a.test:80", "+-a.test:80:127.77.0.2"]
    assert first.replacing(dashed) == ["--a.test:80", "+a.test:80:127.77.0.1"]
    assert Pin("a.test:80", "127.77.0.9").replacing(first) == ["+a.test:80:127.77.0.9"]


@pytest.mark.parametrize(
    ("url", "address", "port", "pin", "connect_to"),
    [
        ("http://a.test/", "127.77.0.1", 80, "+a.test:80:127.77.0.1", ""),
        ("https://a.test:8443/", "127.77.0.1", 8443, "+a.test:8443:127.77.0.1", ""),
        ("http://[::1]/", "::1", 80, "+[::1]:80:[::1]", ""),
        ("http://a.test/", "127.77.0.1", 8800, "+127.77.0.1:8800:127.77.0.1", "a.test:80:127.77.0.1:8800"),
        ("http://a.test/", "::1", 8800, "+[::1]:8800:[::1]", "a.test:80:[::1]:8800"),
    ],
)
def test_pin_and_connect_to(url: str, address: str, port: int, pin: str, connect_to: str) -> None:
    made, to = pin_for(urls.split(url), FetchRequest(url, address, port))
    assert (made.replacing(None), to) == ([pin], connect_to)


def test_headers_of_like_requests_are_the_same_object() -> None:
    one, two = (FetchRequest(f"http://{name}.test/", "127.77.0.1", 80) for name in "ab")
    assert request_headers(one, "teia", keep=True) is request_headers(two, "teia", keep=True)
    assert request_headers(one, "teia", keep=False) is not request_headers(two, "teia", keep=True)


def test_request_head_is_what_a_server_reads() -> None:
    request = FetchRequest("http://a.test:8080/x?y", "127.77.0.1", 8080, etag='"1"', accept="text/html")
    head = request_head(urls.split(request.url), request_headers(request, "teia/1", keep=False))
    assert head == (
        b"GET /x?y HTTP/1.1\r\nHost: a.test:8080\r\nUser-Agent: teia/1\r\nAccept: text/html\r\n"
        b'Accept-Encoding: gzip\r\nConnection: close\r\nIf-None-Match: "1"\r\n\r\n'
    )


def test_a_cache_is_requested_for_the_whole_url_and_only_for_what_it_has() -> None:
    request = FetchRequest("https://a.test:8443/x?y", "127.0.0.1", 3128, accept="text/html", cache_only=True)
    asked, parts = recipient_of(request), urls.split(request.url)._replace(target=request.url)
    headers = request_headers(request, "teia/1", keep=True)
    assert (asked.scheme, asked.authority) == ("http", "127.0.0.1:3128")
    assert headers.lines[0] == b"Host: a.test:8443"
    assert request_head(parts, headers) == (
        b"GET https://a.test:8443/x?y HTTP/1.1\r\nHost: a.test:8443\r\nUser-Agent: teia/1\r\nAccept: text/html\r\n"
        b"Accept-Encoding: gzip\r\nCache-Control: only-if-cached\r\n\r\n"
    )
