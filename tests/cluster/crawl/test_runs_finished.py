"""When a crawl by many nodes is over."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from teia.cluster.crawl.runs import _done_by
from teia.cluster.members.session import NodeState
from teia.cluster.node import Node


def test_a_busy_machine_with_nothing_to_do_is_quiet() -> None:
    """Its load is never the same twice; what it has done is."""
    done = {"pages": 5.0, "requests": 7.0, "queued": 0.0, "inbox": 0.0, "idle": 1.0}
    one, other = (NodeState("a", "i", load=done | {"load": load}) for load in (1.3, 1.4))
    assert _done_by(one) == _done_by(other)
    assert _done_by(one) != _done_by(NodeState("a", "i", load=done | {"pages": 6.0}))


def test_a_node_that_gets_a_stop_while_it_looks_for_the_end_stops() -> None:
    """SIGTERM may come at any moment; that there is more to do does not take it back."""
    node: Any = Node.__new__(Node)

    async def is_over(session: object, owner: object) -> bool:
        node.stop()
        return False

    node._once, node._stopping, node._crawler = True, False, None
    node._finished = SimpleNamespace(was_checked=lambda session: False, is_over=is_over)
    node._thread = SimpleNamespace(call=lambda work: work)
    asyncio.run(node._check_finished(None, None))
    assert node._stopping
