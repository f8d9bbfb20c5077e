"""Detection of the end of a crawl by many nodes: nothing to do anywhere, and nothing on its way.

Every node reports with its session whether it is idle and how much it has done; links that are not merged yet are in
the stream. A report is up to a beat old, so everything has to look the same twice, more than two beats apart: had links
arrived in between, their receiver's count of work done would differ.
"""

from __future__ import annotations

from teia.clock import Clock
from teia.cluster.cells.log import stream_name
from teia.cluster.cells.owner import CellOwner
from teia.cluster.members.session import NodeSession, NodeState

BEATS = 2.5
DONE = frozenset({"queued", "pages", "requests", "inbox", "idle"})


class FinishedCheck:
    """One node's check of all nodes; `is_over` is called again and again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = 0.0
        self._checked_at = 0.0
        self._seen: object = None

    def was_checked(self, session: NodeSession) -> bool:
        """Tell whether there is nothing to check before the next beat."""
        return self._clock.ticks_s() - self._checked_at < session.pace.beat_s and not session.others_report_done()

    async def is_over(self, session: NodeSession, owner: CellOwner) -> bool:
        """Tell whether all is done; then notify the other nodes with the session. To be called once a beat."""
        self._checked_at = self._clock.ticks_s()
        if session.others_report_done():
            return True
        if not await self.is_quiet(session, owner):
            return False
        await session.report_done()
        return True

    async def is_quiet(self, session: NodeSession, owner: CellOwner) -> bool:
        """Tell whether nothing was left to do anywhere, twice. To be called once a beat."""
        now = self._checked_at = self._clock.ticks_s()
        state = await self._idle_state(session, owner)
        # Any difference begins the wait anew.
        if state is None or state != self._seen:
            self._seen, self._since = state, now
            return False
        return now - self._since >= BEATS * session.pace.beat_s

    async def _idle_state(self, session: NodeSession, owner: CellOwner) -> object:
        """Return the state of all nodes if nothing is left to do; None if something is."""
        nodes = session.alive()
        owned = sorted(cell for node in nodes.values() for cell in node.cells)
        # Every cell must have an owner that is idle.
        if owned != sorted(map(str, owner.cells)) or not all(node.load.get("idle") for node in nodes.values()):
            return None
        collection = owner.collection
        js = session.wire.js
        info = await session.wire.request(
            js.stream_info(stream_name(collection), subjects_filter=f"{collection}.links.*")
        )
        # Links that their cell has not merged yet.
        if info.state.subjects:
            return None
        return {name: (node.instance, sorted(node.cells.items()), _done_by(node)) for name, node in nodes.items()}


def _done_by(node: NodeState) -> dict[str, float]:
    """Return a node's counts of work done, without the load of its machine, which is never the same twice."""
    return {key: value for key, value in node.load.items() if key in DONE}
