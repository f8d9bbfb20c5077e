"""Aliases that one node recognised are known to the others, until they are taken back."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from teia.cluster.crawl.shared_aliases import FORGET_S, SharedAliases
from teia.cluster.nats.thread import LoopThread
from teia.frontier.cell.alias_evidence import ALIAS, AliasEvidence, AliasPair
from tests.cluster.conftest import Nats
from tests.waiting import until_async


def book(**mains: str) -> Any:
    """What a node recognised, by the first label of the alias."""
    pairs = {
        f"{name}.a.test": AliasPair(
            f"{name}.a.test", main, 0.0, ALIAS, evidence=AliasEvidence(origin=f"https://{main}")
        )
        for name, main in mains.items()
    }
    return SimpleNamespace(changes=0, elsewhere={}, own_aliases=lambda: dict(pairs), pairs=pairs)


def known(of: Any) -> dict[str, tuple[str, str]]:
    return {alias: (pair.other, pair.evidence.origin) for alias, pair in of.elsewhere.items()}


class SlowClock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def ticks_s(self) -> float:
        return self.now


def test_nodes_tell_each_other_their_aliases(nats: Nats, unique: str) -> None:
    clock: Any = SlowClock()
    first, second = book(www="a.test"), book(m="b.test")
    with LoopThread() as thread:
        wire = thread.wait_for(nats.wire())
        nats.wires.clear()
        one, other = (SharedAliases(unique, wire, thread, clock) for _ in range(2))

        async def main() -> None:
            subscriptions = [await thread.call(each.subscribe()) for each in (one, other)]
            await one.exchange(first)  # nobody listens to the first words of a node that comes later
            await other.exchange(second)

            async def both() -> bool:
                await one.exchange(first)
                await other.exchange(second)
                return bool(first.elsewhere and second.elsewhere)

            await until_async(both)
            assert known(second) == {"www.a.test": ("a.test", "https://a.test")}
            assert known(first) == {"m.a.test": ("b.test", "https://b.test")}
            first.pairs.clear()
            first.changes += 1

            async def taken_back() -> bool:
                await one.exchange(first)
                await other.exchange(second)
                return not second.elsewhere

            await until_async(taken_back)
            for each in subscriptions:  # from here on nobody is heard
                await thread.call(each.unsubscribe())
            await one.exchange(first)
            clock.now += FORGET_S + 1
            last = book()
            await one.exchange(last)
            assert known(last) == {}

        try:
            asyncio.run(main())
        finally:
            thread.wait_for(wire.end())
