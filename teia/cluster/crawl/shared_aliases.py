"""Aliases that other nodes recognised: every node rewrites links to them, as one machine does.

The owner of a site compares its names and decides (crawler/sites/aliases.py); the decision is in the log of the site's
cell. A node that does not know it sends links of an alias to that owner, which passes them on to the main name; but the
links are then counted for the alias. So each node tells the others its aliases: when one is decided, when a node asks,
and all of them every minute. Messages may be lost: an alias that was not repeated for a while is forgotten.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from teia.clock import Clock
from teia.cluster.nats.thread import LoopThread
from teia.cluster.nats.wire import Wire, decode_message
from teia.crawler.sites.aliases import AliasBook
from teia.frontier.cell.alias_evidence import ALIAS, AliasEvidence, AliasPair

if TYPE_CHECKING:
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

REPEAT_S = 60.0
FORGET_S = 200.0
AT_ONCE = 2_000
"""Aliases in one message; NATS accepts a megabyte."""


class AliasMessage(msgspec.Struct, frozen=True, array_like=True):
    """Aliases that a node recognised, as (alias, main name, origin it redirects to); `asks` for those of others.

    The first of several messages replaces all earlier ones of the node.
    """

    node: str
    names: list[tuple[str, str, str]]
    is_first: bool
    asks: bool


class SharedAliases:
    """One node's aliases and those of the others; lives in the loop of the crawl."""

    def __init__(self, shared: str, wire: Wire, thread: LoopThread, clock: Clock) -> None:
        self._subject = f"teia.aliases.{shared}"
        self._wire, self._thread, self._clock = wire, thread, clock
        self._name = wire.client.new_inbox()  # no other node has it
        self._received: deque[bytes] = deque(maxlen=1_000)
        self._elsewhere: dict[str, tuple[str, float, AliasPair]] = {}
        """By alias: the node that told it, when, and the decision."""
        self._sent: tuple[AliasBook | None, int] = (None, 0)
        self._repeat_at = 0.0

    async def subscribe(self) -> Subscription:
        """Subscribe to the aliases of other nodes; runs in the cluster's thread."""

        async def on_message(message: Msg) -> None:
            self._received.append(message.data)

        return await self._wire.request(self._wire.client.subscribe(self._subject, cb=on_message))

    async def exchange(self, book: AliasBook | None) -> None:
        """Take the aliases of other nodes, and tell them those that `book` has."""
        now, is_asked, is_changed = self._clock.ticks_s(), False, False
        while self._received:
            message = decode_message(self._received.popleft(), AliasMessage)
            if message.node != self._name:
                is_asked, is_changed = is_asked or message.asks, True
                self._take(message, now)
        if book is None:
            return
        is_new = self._sent[0] is not book
        if is_new or is_changed or now >= self._repeat_at:
            told = self._elsewhere.items()
            self._elsewhere = {alias: each for alias, each in told if now - each[1] < FORGET_S}
            book.elsewhere = {alias: pair for alias, (_, _, pair) in self._elsewhere.items()}
        if is_new or is_asked or self._sent[1] != book.changes or now >= self._repeat_at:
            asks = self._sent[0] is None
            self._sent, self._repeat_at = (book, book.changes), now + REPEAT_S
            await self._tell(book, asks=asks)

    def _take(self, message: AliasMessage, now: float) -> None:
        if message.is_first:
            told = self._elsewhere.items()
            self._elsewhere = {alias: each for alias, each in told if each[0] != message.node}
        for alias, main, origin in message.names:
            pair = AliasPair(alias, main, 0.0, ALIAS, evidence=AliasEvidence(origin=origin))
            self._elsewhere[alias] = (message.node, now, pair)

    async def _tell(self, book: AliasBook, *, asks: bool) -> None:
        names = [(alias, pair.other, pair.evidence.origin) for alias, pair in book.own_aliases().items()]
        for at in range(0, max(1, len(names)), AT_ONCE):
            message = AliasMessage(self._name, names[at : at + AT_ONCE], not at, asks and not at)
            publishing = self._wire.client.publish(self._subject, msgspec.msgpack.encode(message))
            await self._thread.call(self._wire.request(publishing))
