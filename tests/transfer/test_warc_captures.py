"""Archives that hold far more than their size: what is in memory of them is bounded, and the rest is imported."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from isal import igzip

from teia.store.reader import MAX_RECORD_BYTES, Damage
from teia.transfer.import_warc import BATCH_BYTES, _batches
from teia.transfer.warc_captures import MAX_CAPTURE_BYTES, WarcCapture, read_captures

MiB = 1 << 20
HTTP = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"


def record(
    name: str, block: bytes, kind: bytes = b"response", more: bytes = b"", length: int | None = None
) -> list[bytes]:
    header = b"WARC/1.1\r\nWARC-Type: %b\r\nWARC-Target-URI: http://a.test/%b\r\nWARC-Date: 2024-01-01T00:00:00Z\r\n"
    kinds = {b"response": b"application/http", b"metadata": b"application/warc-fields"}
    length = len(block) if length is None else length
    said = b"Content-Type: %b\r\n%bContent-Length: %d\r\n\r\n" % (kinds[kind], more, length)
    return [header % (kind, name.encode()) + said, block, b"\r\n\r\n"]


def packed(pieces: Iterable[bytes]) -> bytes:
    return igzip.compress(b"".join(pieces), 1)


FINE = record("fine", HTTP + b"\r\n<title>fine</title>")


def same_url(size: int, number: int) -> bytes:
    """One answer and what is said about it, again and again: all of it one capture by its target."""
    said = packed(record("x", b"\0" * size, b"metadata"))
    return packed(FINE) + packed(record("x", HTTP + b"\r\nx")) + said * number + packed(FINE)


def bomb() -> bytes:
    """A record of half a gigabyte."""
    pack = zlib.compressobj(1, zlib.DEFLATED, 31)
    header = record("bomb", b"", length=512 * MiB)[0]
    zeros = b"\0" * MiB
    return b"".join([pack.compress(header), *(pack.compress(zeros) for _ in range(512)), pack.flush()])


def _files() -> Iterator[tuple[str, str, Callable[[], bytes]]]:
    lines, line = b"a:b\r\n" * (4 * MiB), b"X: " + b"y" * (20 * MiB) + b"\r\n"
    head = HTTP + b"a:b\r\n" * (4 * MiB) + b"\r\nx"
    fine = b"".join(FINE)
    for name, more in (("header of many lines", lines), ("header of one line", line)):
        yield name, "x.warc.gz", lambda more=more: packed(FINE) + packed(record("h", b"x", more=more)) + packed(FINE)
        yield name, "x.warc", lambda more=more: fine + b"".join(record("h", b"x", more=more))
    yield "HTTP head of many lines", "x.warc.gz", lambda: packed(record("h", head)) + packed(FINE)
    yield "many records of one URL", "x.warc.gz", lambda: same_url(20 * MiB, 12)
    yield "large record", "x.warc.gz", lambda: packed(FINE) + bomb() + packed(FINE)
    yield "length that is a lie", "x.warc", lambda: fine + b"".join(record("l", b"x", length=10**17))
    yield "length that is no lie", "x.warc", lambda: fine + b"".join(record("l", b"x" * 70 * MiB)) + fine
    yield "line ends", "x.warc", lambda: fine + b"\r\n" * (20 * MiB)


FILES = list(_files())


@pytest.mark.heavy
@pytest.mark.parametrize(("name", "make"), [each[1:] for each in FILES], ids=[f"{x[0]} {x[1]}" for x in FILES])
def test_memory_is_bounded_whatever_a_file_holds(tmp_path: Path, name: str, make: Callable[[], bytes]) -> None:
    """Seen: 2.7 MB took 5.6 GB, because records of one URL were held together whatever their size."""
    path = tmp_path / name
    path.write_bytes(make())
    damages: list[Damage] = []
    tracemalloc.start()
    try:
        names = [capture.url for batch in _batches(read_captures(path, damages.append)) for capture in batch]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "http://a.test/fine" in names
    # One capture and the one that follows it; the record being read, in pieces and whole.
    assert peak < 2 * MAX_CAPTURE_BYTES + 2 * MAX_RECORD_BYTES
    assert len(damages) <= 1


def test_what_is_too_large_for_one_capture_becomes_several(tmp_path: Path) -> None:
    path = tmp_path / "x.warc.gz"
    path.write_bytes(same_url(MAX_CAPTURE_BYTES // 3, 7))
    found = list(read_captures(path, pytest.fail))  # type: ignore[arg-type]  # any call fails
    assert [len(each.records) for each in found] == [1, 3, 2, 2, 1, 1]
    assert max(each.size_bytes for each in found) <= MAX_CAPTURE_BYTES


def test_a_batch_ends_with_the_capture_that_makes_it_large() -> None:
    sizes = [1, BATCH_BYTES, 1, 1, BATCH_BYTES // 2, BATCH_BYTES // 2 + 1, 5]
    found = [WarcCapture(f"http://a.test/{number}", number, size_bytes=size) for number, size in enumerate(sizes)]
    assert [[each.offset for each in batch] for batch in _batches(iter(found))] == [[0, 1], [2, 3, 4, 5], [6]]


IMPORT = """
import re, sys
from pathlib import Path
from tests.transfer.test_import_data import new_root, take_archives
done = take_archives(new_root(Path(sys.argv[2])), Path(sys.argv[1]))
# What getrusage says begins with the memory of whoever started the process; this does not.
peak_kb = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
print(done.pages, done.damaged, peak_kb // 1024)
"""


def test_importing_a_small_file_that_holds_much_takes_little_memory(tmp_path: Path) -> None:
    """The whole import, with answers in every coding that can be a bomb."""
    zeros = b"\0" * (40 * MiB)
    coded = [
        packed(record(name, HTTP + b"Content-Encoding: " + name.encode() + b"\r\n\r\n" + body))
        for name, body in (
            ("gzip", zlib.compress(zeros, 1, 31)),
            ("deflate", zlib.compress(zeros, 1)),
            ("br", b"\x5b\xff\xff\xff" * 1000),
            ("zstd", b"\x28\xb5\x2f\xfd" + b"\xff" * 1000),
        )
    ]
    path = tmp_path / "x.warc.gz"
    path.write_bytes(same_url(24 * MiB, 15) + b"".join(coded))
    assert path.stat().st_size < 3 * MiB
    command = [sys.executable, "-c", IMPORT, path, tmp_path / "data"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    pages, damaged, peak_mb = map(int, done.stdout.split())
    assert (pages, damaged) == (6, 0)
    assert peak_mb < 450
