"""Retry-After, as servers write it."""

from __future__ import annotations

import pytest

from teia.crawl.judge import MAX_RETRY_AFTER_S, retry_after_s
from teia.records import Fetched

NOW_S = 1_700_000_000.0


def answer(status: int, *headers: str) -> Fetched:
    head = "\r\n".join([f"HTTP/1.1 {status} x", *headers, "", ""]).encode()
    return Fetched("http://a.test/", str(status), status, NOW_S, NOW_S, head=head)


@pytest.mark.parametrize(
    ("status", "header", "wait_s"),
    [
        (503, "Retry-After: 120", 120.0),
        (429, "retry-after:7", 7.0),
        (503, "Retry-After: Tue, 14 Nov 2023 22:14:20 GMT", 60.0),
        (503, "Retry-After: Tue, 14 Nov 2023 22:00:00 GMT", 0.0),
        (503, "Retry-After: 99999999999", MAX_RETRY_AFTER_S),
        (503, "Retry-After: -5", 0.0),
        (503, "Retry-After: ٣", 0.0),
        (503, "Retry-After: soon", 0.0),
        (503, "X-Retry-After: 5", 0.0),
        (200, "Retry-After: 120", 0.0),
    ],
)
def test_retry_after_is_read_or_passed_over(status: int, header: str, wait_s: float) -> None:
    assert retry_after_s(answer(status, header), NOW_S) == wait_s
