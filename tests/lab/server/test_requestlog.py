"""The request log: what is written is read back, and a torn end is no harm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.clock import from_iso
from teia.errors import CorruptFile, LabError
from teia.lab.server.requestlog import MOST_PENDING, RequestLog, RequestLogEntry, read_log

CLIENT = ("127.0.0.1", 40000)


def add(log: RequestLog, start_s: float, path: str = "/") -> None:
    log.add(start_s, start_s + 0.25, CLIENT, "127.77.0.1", "one.test", path, 200, {"user-agent": "teia"})


def test_entries_are_read_back_as_they_were_added(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with RequestLog(path) as log:
        add(log, 1_772_366_400.5, "/á?x=\"1\"&y='\\'")
    assert read_log(path) == [
        RequestLogEntry(
            start_s=1_772_366_400.5,
            end_s=1_772_366_400.75,
            peer="127.0.0.1",
            peer_port=40000,
            address="127.77.0.1",
            host="one.test",
            path="/á?x=\"1\"&y='\\'",
            status=200,
            headers={"user-agent": "teia"},
        )
    ]


def test_lines_have_the_keys_of_the_contract_and_iso_times(tmp_path: Path) -> None:
    with RequestLog(tmp_path / "log") as log:
        add(log, 1_772_366_400.0)
    line = json.loads((tmp_path / "log").read_text())
    assert {"start", "end", "peer", "host", "path", "status", "headers"} <= set(line)
    assert (line["start"], line["end"]) == ("2026-03-01T12:00:00.000000Z", "2026-03-01T12:00:00.250000Z")


@given(st.lists(st.floats(min_value=0, max_value=4e9, allow_nan=False), min_size=1, max_size=5))
def test_times_are_exact_to_the_microsecond_and_keep_their_order(times: list[float]) -> None:
    log = RequestLog(Path("/dev/null"))
    with log:
        texts = [log._stamp(time) for time in times]
    assert all(-1e-6 <= time - from_iso(text) <= 2e-6 for time, text in zip(times, texts, strict=True))
    assert sorted(texts) == [text for _, text in sorted(zip(times, texts, strict=True))]


def test_torn_last_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with RequestLog(path) as log:
        add(log, 1.0, "/a")
        add(log, 2.0, "/b")
    whole = path.read_bytes()
    for size_bytes in range(len(whole)):
        path.write_bytes(whole[:size_bytes])
        assert len(read_log(path)) == whole[:size_bytes].count(b"\n")


def test_broken_line_in_the_middle_is_reported_by_number(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with RequestLog(path) as log:
        add(log, 1.0)
    path.write_bytes(path.read_bytes() + b'{"start": 1}\n')
    with pytest.raises(CorruptFile, match="line 2"):
        read_log(path)


def test_memory_is_bounded_without_a_flush(tmp_path: Path) -> None:
    with RequestLog(tmp_path / "log") as log:
        for number in range(MOST_PENDING + 1):
            add(log, float(number))
        assert len(read_log(tmp_path / "log")) == MOST_PENDING
        log.flush()
        assert len(read_log(tmp_path / "log")) == MOST_PENDING + 1


def test_log_that_cannot_be_opened_says_so(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="--log"):
        RequestLog(tmp_path / "no" / "log")


def test_log_that_cannot_be_written_says_so_when_it_is_closed() -> None:
    log = RequestLog(Path("/dev/full"))
    for number in range(MOST_PENDING * 2):
        add(log, float(number))
    with pytest.raises(LabError, match="incomplete: No space left"):
        log.close()
