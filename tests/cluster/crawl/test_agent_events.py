"""Events of a node go into the logs of its cells (A1)."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from teia.clock import VirtualClock
from teia.cluster.crawl.agent_events import AgentEvents
from teia.crawler.agent_log import KEPT, read_events
from teia.frontier.cell.cell import FrontierCell
from teia.records import AgentRole


def test_a_node_that_takes_a_cell_again_continues_the_numbers_of_the_owner_between(tmp_path: Path) -> None:
    clock = VirtualClock(1_700_000_000.0)
    first, other = AgentEvents(clock, "a"), AgentEvents(clock, "b")
    with closing(FrontierCell(tmp_path / "frontier.sqlite")) as frontier:

        def take(owner: AgentEvents, batches: int) -> None:
            owner.note_taken(1)
            for _ in range(batches):
                owner.note_received(1, {"c": (1, 0.0, 0.0)})
                with frontier.transaction():
                    owner.log.write(1, frontier)

        take(first, 3)
        take(other, KEPT)
        take(first, 1)
        taken = [event for event in read_events(frontier) if event.role == AgentRole.TAKE]
    assert sorted(event.number for event in taken) == list(range(4, KEPT + 4)), "the oldest gave way"
    assert [event.node for event in taken].count("a") == 1
