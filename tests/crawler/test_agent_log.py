"""Events of a cell are committed with its visits, a ring for each role (A1)."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

from teia.clock import VirtualClock
from teia.crawler.agent_log import KEPT, PREFIX, AgentLog, read_events
from teia.frontier.cell.cell import FrontierCell
from teia.records import AgentMessage, AgentRole


def test_events_are_written_to_their_cells_and_the_newest_of_each_role_stay(tmp_path: Path) -> None:
    clock = VirtualClock(1_700_000_000.0)
    log = AgentLog(clock, "a")
    with closing(FrontierCell(tmp_path / "frontier.sqlite")) as frontier:
        log.note([1, 2], AgentRole.JOIN, "joined", AgentMessage.JOIN, 1_600_000_000.0)
        with frontier.transaction():
            log.write(1, frontier)
        (event,) = read_events(frontier)
        assert (event.role, event.time_s, event.node, event.message) == ("Join", 1_600_000_000.0, "a", "Join")
        with frontier.transaction():
            log.write(1, frontier)
        assert read_events(frontier) == [event], "written once"
        for number in range(KEPT + 5):
            asyncio.run(clock.advance(1.0))
            # Another run of the crawler goes on where the last one was.
            another = AgentLog(clock, "b")
            another.note([1], AgentRole.TAKE, f"batch {number}")
            with frontier.transaction():
                another.write(1, frontier)
        taken = read_events(frontier)[1:]
        assert [each.what for each in taken] == [f"batch {number}" for number in range(5, KEPT + 5)]
        assert read_events(frontier)[0] == event
        with frontier.transaction():
            frontier.set_meta({f"{PREFIX}Newer.00": '{"time": "unknown"}'})
        assert len(read_events(frontier)) == KEPT + 1, "what a newer teia wrote is left out"
