"""Execution of the balance: one node looks at all, decides (balance.py) and writes the decision down (cell_owners.py).

It is the node whose name comes first among the live ones; should two believe so for a moment, one of them is refused.
Nothing is decided while cells are moving: the reported loads would be of another distribution.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import msgspec

from teia.clock import Clock
from teia.cluster.cells.split import Splitter
from teia.cluster.members.session import NodeSession, NodeState
from teia.cluster.placing.balance import CellTransfer, NodeLoad, is_slow, plan, plan_exchange
from teia.cluster.placing.cell_owners import CircleOrder, OwnerOverrides, RingDocument, record_moves
from teia.cluster.placing.site_strategies import GEO, forwarding_nodes
from teia.config.sections import BalanceSettings

_log = logging.getLogger(__name__)


def node_loads(nodes: Mapping[str, NodeState]) -> dict[str, NodeLoad]:
    """Return the nodes as the balance sees them, from their reports.

    The capacity of a node that loses documents to its own time-outs is the part that it carries (T4): it is above its
    share then, and cells go to others.
    """
    return {
        name: NodeLoad(
            name, node.capacity * node.load.get("carries", 1.0),
            {int(cell): float(queued) for cell, queued in node.queued.items()}, node.region, node.busy,
            node.load.get("slow", 0.0), int(node.load.get("measured", 0)), node.landmarks,
        )
        for name, node in sorted(nodes.items())
    }  # fmt: skip


class Balancer:
    """One node's part in the balance of its collection."""

    def __init__(
        self,
        session: NodeSession,
        overrides: OwnerOverrides,
        order: CircleOrder,
        settings: BalanceSettings,
        strategy: str,
        clock: Clock,
        splitter: Splitter | None = None,
    ) -> None:
        self._session = session
        self._overrides = overrides
        self._order = order
        self._settings = settings
        self._strategy = strategy
        self._clock = clock
        self._splitter = splitter

    async def run(self) -> None:
        """Call `balance_once` every beat, until cancelled."""
        while True:
            await self._clock.sleep(self._session.pace.beat_s)
            try:
                await self.balance_once()
            except Exception as error:  # noqa: BLE001  # after any error of NATS it is tried again
                _log.info("not balanced: %s", error)

    async def balance_once(self) -> list[CellTransfer]:
        """Decide once, if this node decides and it is time; return the decided transfers."""
        alive, settings = self._session.alive(), self._settings
        # The time of the last balance is in the shared document: another decider does not begin anew.
        is_time = self._clock.now_s() - self._overrides.ring.balanced_s >= settings.every_s
        is_ours = self._session.has_watched and self._session.may_work and min(alive) == self._session.node.name
        if not is_ours or not self._is_settled(alive):
            return []
        if self._splitter is not None and await self._splitter.request_split_of_largest(
            alive.values(), settings.split_urls
        ):
            return []
        if not settings.enabled or not is_time:
            return []
        moves: list[CellTransfer] = []

        # Called again if another node changes the document meanwhile.
        def decide(ring: RingDocument) -> RingDocument | None:
            moves[:] = self.decide_transfers(alive, ring)
            if not moves:
                return None
            cells = len(self._order.starts)
            circle = {cell: self._order.by_circle(cell, alive)[0] for cell in range(cells)}
            ring = record_moves(ring, moves, circle.__getitem__, self._clock.now_s())
            pairs = {(move.giver, move.taker) for move in moves if move.why == "slow"}
            tried = {
                giver: [*ring.tried.get(giver, []), taker]
                for giver, taker in pairs
                if is_slow(self._load_of(alive, giver))
            }
            return msgspec.structs.replace(ring, tried={**ring.tried, **tried})

        if await self._overrides.change(decide):
            for move in moves:
                _log.info("cell=%d decided giver=%s taker=%s why=%s", *move)
        return moves

    def decide_transfers(self, alive: Mapping[str, NodeState], ring: RingDocument) -> list[CellTransfer]:
        """Return the transfers that are needed now."""
        nodes = {name: each for name, each in node_loads(alive).items() if name not in ring.drained}
        # If sites go by country, cells stay in their region.
        moves = plan(list(nodes.values()), self._settings, across=self._strategy != GEO)
        if moves:
            return moves
        for name, node in nodes.items():
            if is_slow(node):
                path = forwarding_nodes(name, {each: alive[each] for each in nodes})
                moves = plan_exchange(nodes, name, path, ring.tried.get(name, []))
                if moves:
                    return moves
        return []

    @staticmethod
    def _load_of(alive: Mapping[str, NodeState], name: str) -> NodeLoad:
        return node_loads({name: alive[name]})[name]

    def _is_settled(self, alive: Mapping[str, NodeState]) -> bool:
        """Tell whether every cell is with its proper owner, which reports it."""
        owners = {int(cell): name for name, node in alive.items() for cell in node.cells}
        reported, cells = sum(len(node.cells) for node in alive.values()), len(self._order.starts)
        if reported != cells or len(owners) != cells:
            return False
        return all(self._order(cell, alive)[0] == owners[cell] for cell in range(cells))
