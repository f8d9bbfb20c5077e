"""Look-ups while nodes come and go: by Chord's messages, and by our table of members (A2).

Nodes crash without a notice after exponential lifetimes, and as many join. Every second some nodes look up random keys.
A look-up by Chord is right if it ends at the present owner. With our table a look-up is right if the owner it names is
alive: a node that joins is known to all with its first session, one that died `silence_s` after its last.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from teia.cluster.circle.circle import BITS, Circle, CirclePoint
from teia.cluster.members.session import Pace
from teia.lab.lookup.protocol import Distributor, Unreachable
from teia.lab.lookup.simulated import Network

LOOK_UPS_PER_S = 4


@dataclass(slots=True)
class ChurnResult:
    """Look-ups under churn. `ended` are those by Chord that named an owner, `right` those that named the present one.

    `hops` and `late_s`, the wait for silent points, are sums over `ended`; messages are per node and second.
    """

    look_ups: int = 0
    ended: int = 0
    right: int = 0
    hops: int = 0
    late_s: float = 0.0
    messages: float = 0.0
    right_by_table: int = 0
    table_messages: float = 0.0


@dataclass(slots=True)
class _Table:
    """The members as our sessions report them: a dead node is known as dead only after a silence."""

    silence_s: float
    died_at: dict[str, float] = field(default_factory=dict)

    def names_living_owner(self, key: int, network: Network, now: float) -> bool:
        alive = {point.node for point in network.peers}
        self.died_at = {name: at for name, at in self.died_at.items() if now - at < self.silence_s}
        return Circle(dict.fromkeys([*alive, *self.died_at], 1.0), points=1).owner(key) in alive


def measure_churn(nodes: int, lifetime_s: float, seconds: int, seed: int) -> ChurnResult:
    """Run a network of so many nodes for some seconds of virtual time."""
    return asyncio.run(_run(nodes, lifetime_s, seconds, seed))


async def _run(nodes: int, lifetime_s: float, seconds: int, seed: int) -> ChurnResult:
    network, pace = Network(seed), Pace()
    network.build(f"n{number}" for number in range(nodes))
    table, result, joining = _Table(pace.silence_s), ChurnResult(), list[asyncio.Task[Distributor]]()
    due = network.chance.expovariate(nodes / lifetime_s)
    looking: list[asyncio.Task[None]] = []
    for second in range(seconds):
        while due <= second:
            victim = network.chance.choice(sorted(network.peers))
            network.crash(victim)
            table.died_at[victim.node] = network.clock.ticks_s()
            joining.append(asyncio.ensure_future(network.join(f"m{second}-{len(joining)}")))
            due += network.chance.expovariate(nodes / lifetime_s)
        for _ in range(LOOK_UPS_PER_S):
            start = network.chance.choice(sorted(network.peers))
            looking.append(asyncio.ensure_future(_look_up(network, start, table, result)))
        await network.clock.advance(1.0)
    # What the nodes send from now on, while the last look-ups end, is not of these seconds.
    result.messages = network.messages / nodes / seconds
    await network.clock.advance(60.0)
    for task in (*joining, *looking):
        task.cancel()
    # Every node receives the renewals of all others.
    result.table_messages = nodes / pace.beat_s
    network.close()
    return result


async def _look_up(network: Network, start: CirclePoint, table: _Table, result: ChurnResult) -> None:
    key, began = network.chance.getrandbits(BITS), network.clock.ticks_s()
    result.right_by_table += table.names_living_owner(key, network, began)
    result.look_ups += 1
    try:
        found = await network.peers[start].look_up(key)
    except (Unreachable, KeyError):
        return
    result.ended += 1
    result.right += bool(network.peers) and found.owner == network.circle().successor(key)
    result.hops += found.hops
    result.late_s += network.clock.ticks_s() - began
