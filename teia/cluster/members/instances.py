"""Instances of nodes that are over, as one node knows it.

A node's instance is new with each session. A record of a cell or a claim on an address counts as long as the instance
that wrote it lives, so a reader has to know that. There are three answers:

    it lives, or is reported as left or dead       its name's key says so
    it is over                                     its name has another instance since: that one names the instance it
                                                   followed, and the ones seen before it are remembered
    unknown                                        no node has reported it: older than all known reports, or so new
                                                   that its key has not come yet; or its key was deleted

An unknown instance must not be taken for dead: a node that came back may have taken its cells a moment before we hear
of it. Neither may it hold them for ever. So it is logged once, counted, and believed to be over when no report of it
came for T, by a watch that still delivers our own key.
"""

from __future__ import annotations

import logging
from math import inf
from typing import Protocol

_log = logging.getLogger(__name__)


class InstanceState(Protocol):
    """The part of a node's state that matters here (`NodeState` of session.py)."""

    @property
    def name(self) -> str: ...
    @property
    def instance(self) -> str: ...
    @property
    def follows(self) -> str: ...
    @property
    def is_alive(self) -> bool: ...


class Instances:
    """The knowledge of one session about all instances."""

    def __init__(self) -> None:
        self.own_key_at = -inf
        """Time at which the watch last delivered our own key: all earlier reports of others came before it.

        It is -inf while a new watch has not delivered it yet; until then no instance counts as unknown.
        """
        self._now: dict[str, InstanceState] = {}
        self._former: set[tuple[str, str]] = set()
        self._unknown_since: dict[tuple[str, str], float] = {}

    @property
    def unknown(self) -> int:
        """Number of unknown instances ever found."""
        return len(self._unknown_since)

    def note(self, node: InstanceState) -> None:
        """Record the present value of a name's key."""
        before = self._now.get(node.name)
        if before is not None and before.instance != node.instance:
            self._former.add((before.name, before.instance))
        # Also if that instance was never seen here.
        if node.follows:
            self._former.add((node.name, node.follows))
        self._now[node.name] = node

    def note_deleted(self, name: str) -> None:
        """Record that a name's key is gone: an instance of it that lived is unknown from now on."""
        node = self._now.pop(name, None)
        if node is not None and not node.is_alive:
            self._former.add((name, node.instance))

    def is_over(self, name: str, instance: str, now: float, silence_s: float) -> bool:
        """Tell whether an instance that wrote something is over; `silence_s` is T."""
        node = self._now.get(name)
        if node is not None and node.instance == instance:
            return not node.is_alive
        if (name, instance) in self._former:
            return True
        if self.own_key_at == -inf:
            return False
        since = self._unknown_since.get((name, instance))
        if since is None:
            since = self._unknown_since[name, instance] = now
            _log.warning(
                "unknown instance node=%s instance=%s, considered dead unless it reports within %g s",
                name,
                instance,
                silence_s,
            )
        # Counted by what the watch delivered: while NATS is away, no instance grows old.
        return self.own_key_at - since >= silence_s
