"""Whole crawls of servers that close kept connections without a word, judged by what those servers saw."""

from __future__ import annotations

import socket
from itertools import pairwise
from pathlib import Path

import pytest

import teia
from teia.lab.hostile.server import Behaviour, HostileServer, Seen, page, sends

PAGES = 8
DELAY_S = 0.15


def _site(*, waits_for_the_next: bool) -> dict[str, Behaviour]:
    """Pages on a server that hangs up right after its answer, or when the connection's next request arrives."""
    answered: set[int] = set()
    links = b"".join(b'<a href="/%d">page</a>' % number for number in range(1, PAGES))

    def behave(connection: socket.socket, seen: Seen) -> bool:
        if seen.connection in answered:
            return False
        answered.add(seen.connection)
        text = b"<html><title>%b</title><body>%b" % (seen.target.encode(), links)
        connection.sendall(page(text, b"Content-Type: text/html"))
        return waits_for_the_next

    return dict.fromkeys(["/", *(f"/{number}" for number in range(1, PAGES))], behave)


def _crawl(server: HostileServer, data: Path) -> teia.Summary:
    return teia.crawl(
        ["http://a.test/"],
        data=data,
        delay=DELAY_S,
        resolve=[f"*.test=127.77.0.1:{server.port}"],
        allow_net=["127.77.0.0/16"],
        max_seconds=20,
        sites={"probe_after_pages": 0},
    )


@pytest.mark.parametrize(("waits_for_the_next", "lost"), [(False, 0), (True, 1)])
def test_a_server_that_closes_without_an_answer_is_crawled_whole_with_its_delay(
    tmp_path: Path, waits_for_the_next: bool, lost: int
) -> None:
    """Seen: half of all requests failed at a delay below a second, and each waited half a minute for its next try."""
    with HostileServer(_site(waits_for_the_next=waits_for_the_next)) as server:
        summary = _crawl(server, tmp_path)
        log = list(server.log)
    assert (summary.state, summary.pages, summary.politeness_violations) == ("finished", PAGES, 0)
    assert summary.outcomes.get("connect", 0) == lost
    assert summary.requests == len(log) == 1 + PAGES + lost
    gaps_s = [later.at_s - earlier.at_s for earlier, later in pairwise(log)]
    assert min(gaps_s) >= DELAY_S * 0.95


def test_robots_whose_kept_connection_died_is_requested_again_and_obeyed(tmp_path: Path) -> None:
    def rules(connection: socket.socket, seen: Seen) -> bool:
        if seen.connection > 1:
            connection.sendall(page(b"User-agent: *\nDisallow: /1\n", b"Content-Type: text/plain"))
        return False

    moved = sends(page(b"", b"Location: /rules", status=b"302 Found"), keep=True)
    site = _site(waits_for_the_next=True) | {"/robots.txt": moved, "/rules": rules}
    with HostileServer(site) as server:
        summary = _crawl(server, tmp_path)
        assert server.targets()[:4] == ["/robots.txt", "/rules", "/rules", "/"]
        assert "/1" not in server.targets()
    assert (summary.state, summary.pages, summary.outcomes["robots"]) == ("finished", PAGES - 1, 1)
