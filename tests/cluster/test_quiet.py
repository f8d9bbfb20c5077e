"""When a crawl by many nodes is over."""

from __future__ import annotations

from teia.cluster.quiet import _done_by
from teia.cluster.session import NodeState


def test_a_busy_machine_with_nothing_to_do_is_quiet() -> None:
    """Its load is never the same twice; what it has done is."""
    done = {"pages": 5.0, "requests": 7.0, "queued": 0.0, "inbox": 0.0, "idle": 1.0}
    one, other = (NodeState("a", "i", load=done | {"load": load}) for load in (1.3, 1.4))
    assert _done_by(one) == _done_by(other)
    assert _done_by(one) != _done_by(NodeState("a", "i", load=done | {"pages": 6.0}))
