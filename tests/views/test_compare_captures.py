"""Comparison of two versions of a page."""

from __future__ import annotations

import random
import time

from teia.clock import WallClock
from teia.store.reader import ArchiveRecord
from teia.views.capture_reader import CaptureReader
from teia.views.captures import StoredCapture
from teia.views.compare_captures import MAX_CHARS, compare

URL = "http://a.test/"


def capture_of(text: str) -> StoredCapture:
    record = ArchiveRecord("a.warc.gz", 0, 0, "response", URL, 0.0, {}, b"")
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"
    return StoredCapture(URL, 0, 0.0, 200, record, head, text.encode(), "", is_whole=True)


def test_two_unrelated_texts_of_a_million_characters_are_compared_in_bounded_time() -> None:
    """They took half a minute in which the server answered nobody."""
    chance = random.Random(5)
    one, other = (" ".join(f"{chance.randrange(16**3):04x}" for _ in range(MAX_CHARS // 5)) for _ in range(2))
    reader = CaptureReader(WallClock())
    try:
        before, after = capture_of(one), capture_of(other)
        for each in (before, after):
            reader.text(each.url, each.head, each.body)  # read, and cached
        began = time.thread_time()
        comparison = compare(reader, before, after)
        spent_s = time.thread_time() - began
    finally:
        reader.close()
    assert not comparison.is_too_long
    assert comparison.removed > MAX_CHARS / 6
    assert spent_s < 8, "half a second where nothing else runs"
