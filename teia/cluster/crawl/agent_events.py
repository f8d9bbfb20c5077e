"""Events of a node for `teia trace`: its joining, the cells it took, hand-overs, load states, sites passed on (A1).

They go into the logs of the cells that they concern (crawler/agent_log.py), with the next commit of each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from teia.clock import Clock
from teia.cluster.members.session import NodeState
from teia.cluster.placing.balance import IDLE, OVERLOADED
from teia.crawler.agent_log import AgentLog
from teia.records import AgentMessage, AgentRole

WANDERED = {"overloaded": "it had too much work", "slow": "its servers were slow from there"}
"""Reasons for which a cell is moved by the balance, in words; other moves are those of the circle, or of a user."""


class AgentEvents:
    """The events of one node. Its methods may be called in any thread."""

    def __init__(self, clock: Clock, node: str) -> None:
        self.log = AgentLog(clock, node)
        self._node, self._clock = node, clock
        self._joined_s = 0.0
        self._members: set[str] = set()
        self._state = ""

    def note_join(self) -> None:
        """Note that the node's session began."""
        self._joined_s, self._members = self._clock.now_s(), set()

    def note_taken(self, cell: int) -> None:
        """Note that the node took a cell."""
        self.log.forget_numbers(cell)
        what = f"node {self._node} joined the circle"
        self.log.note([cell], AgentRole.JOIN, what, AgentMessage.JOIN, self._joined_s)
        self.log.note([cell], AgentRole.DISTRIBUTOR, f"cell {cell} belongs to node {self._node} from now on")

    def note_caught_up(self, cell: int, commits: int) -> None:
        """Note that the file of a cell has the commits of its earlier owners."""
        what = f"the file of cell {cell} caught up with {commits:,} commits of its log"
        self.log.note([cell], AgentRole.SYNCHRONIZER, what, AgentMessage.KEY, values={"commits": commits})

    def note_members(self, alive: Collection[str], cells: Collection[int]) -> None:
        """Note, for the cells owned here, that nodes came to the circle or are gone."""
        if set(alive) != self._members:
            self._members = set(alive)
            what = f"the circle has {len(alive)} nodes: {', '.join(sorted(alive))}"
            self.log.note(cells, AgentRole.STABILIZER, what, values={"nodes": sorted(alive)})

    def note_state(self, state: str, queued: float, cells: Collection[int]) -> None:
        """Note that the node is idle, normal or overloaded from now on (A5)."""
        if state == self._state:
            return
        self._state = state
        self.log.note(
            cells, AgentRole.FRONTIER, f"node {self._node} is {state}: {queued:,.0f} URLs wait", AgentMessage.STATE
        )
        message = {IDLE: AgentMessage.IDLE, OVERLOADED: AgentMessage.OVERFLOW}.get(state)
        if message is not None:
            what = "can take more work" if state == IDLE else "has more work than it should"
            self.log.note(cells, AgentRole.ANALYZER, f"node {self._node} {what}", message)

    def note_move(self, cell: int, giver: str, taker: str, why: str) -> None:
        """Note that the balance moved a cell to this node."""
        if taker == self._node and why in WANDERED:
            what = f"cell {cell} came from node {giver}: {WANDERED[why]}"
            self.log.note([cell], AgentRole.WANDERER, what, values={"giver": giver, "why": why})

    def note_received(self, cell: int, batches: Mapping[str, tuple[int, float, float]]) -> None:
        """Note batches of links by sender: their number, and when NATS stored the first and the last of them."""
        for giver, (number, first_s, last_s) in sorted(batches.items()):
            what = f"merged {number:,} batches of links from node {giver or 'of an older version'}"
            values = {"giver": giver, "batches": number, "stored_s": [round(first_s, 6), round(last_s, 6)]}
            self.log.note([cell], AgentRole.TAKE, what, values=values)

    def note_redirect(self, site: str, cell: int, to_cell: int) -> None:
        """Note that a site was passed on to another cell."""
        what = f"site {site} was not accepted here and passed on to cell {to_cell}"
        self.log.note(
            [cell], AgentRole.ANALYZER, what, AgentMessage.REDIRECT, values={"site": site, "to_cell": to_cell}
        )

    def note_arrival(self, site: str, cell: int) -> None:
        """Note that a site was passed on to a cell of this node."""
        what = f"site {site} came with all its URLs from another cell"
        self.log.note([cell], AgentRole.TAKE, what, AgentMessage.KEY, values={"site": site})


def members(nodes: Mapping[str, NodeState]) -> list[str]:
    """Return the names of the nodes on the circle."""
    return sorted(name for name, node in nodes.items() if node.is_alive)
