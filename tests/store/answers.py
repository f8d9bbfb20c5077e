"""Answers to archive, and the archives made of them, for the tests of this folder."""

from __future__ import annotations

import random
import re
import zlib
from dataclasses import replace
from pathlib import Path

from teia.clock import VirtualClock
from teia.records import Fetched
from teia.store.archive import ArchiveWriter, Position, Stored
from teia.store.warc import Members, page_members

START_S = 1_700_000_000.25
REQUEST = b"GET /a HTTP/1.1\r\nHost: a.test\r\nUser-Agent: teia\r\n\r\n"
PAGE = b"<html><title>ol\xc3\xa1</title><p>" + b"uma frase repetida " * 40 + b"</html>"


def gzipped(data: bytes) -> bytes:
    return zlib.compress(data, 6, 31)


def fetched(
    head: bytes = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n", url: str = "http://a.test/a"
) -> Fetched:
    status = int(next(iter(re.findall(rb"(?im)^http/[\d.]+ ([2-9]\d\d)", head)), 0))
    return Fetched(url, str(status), status, START_S, START_S + 0.5, "127.77.0.1", REQUEST, head)


def page(number: int, body: bytes | None = None) -> Members:
    """The records of one page; different numbers give different URLs, times and bodies."""
    body = random.Random(number).randbytes(300 + number % 700) if body is None else body
    answer = replace(fetched(url=f"http://a.test/{number}"), started_s=START_S + number)
    return page_members(answer, body, {"number": str(number)})


def writer(
    folder: Path, start: Position | None = None, file_bytes: int = 1 << 30, past_damage: bool = False
) -> ArchiveWriter:
    folder.mkdir(parents=True, exist_ok=True)
    return ArchiveWriter(folder, "main", 7, file_bytes, VirtualClock(START_S), start, past_damage=past_damage)


def archive_of(folder: Path, members: list[Members], file_bytes: int = 1 << 30) -> tuple[list[Stored], Position]:
    """An archive with one commit per answer; where each record lies, and the last position."""
    places: list[Stored] = []
    with writer(folder, file_bytes=file_bytes) as archive:
        for each in members:
            places.extend(archive.append(each))
            archive.flush_and_sync()
        return places, archive.position
