"""Which instances of nodes are over, as one node knows it.

A node's instance is new with each session. What one wrote, a cell's record or an address's turn, counts as long as it
lives, so whoever finds it has to know. Three answers:

    it lives, or was said to have left or died     its name's key says so
    it is over                                     its name is another instance's since: that one names the instance it
                                                   followed, and the ones seen before it are remembered
    unknown                                        nobody has told us of it: older than what anybody remembers, or so
                                                   new that its key has not come yet; or its key was deleted

An unknown one must not be taken for dead: a node that came back may have taken its cells a moment before we hear of it.
Neither may it hold them for ever. So it is told of once, counted, and believed to be over when nothing was heard of it
for T, by a watch that still brings what our own key says.
"""

from __future__ import annotations

import logging
from math import inf
from typing import Protocol

_log = logging.getLogger(__name__)


class Named(Protocol):
    """A node as far as it matters here (`NodeState` of session.py)."""

    @property
    def name(self) -> str: ...
    @property
    def instance(self) -> str: ...
    @property
    def follows(self) -> str: ...
    @property
    def is_alive(self) -> bool: ...


class Instances:
    """What one session knows of all instances."""

    def __init__(self) -> None:
        self.heard_at = -inf
        """When what our own key says last came by the watch: what others said before that came before it. Not yet,
        where a watch has just begun; until then nobody who is not known yet is unknown."""
        self._now: dict[str, Named] = {}
        self._former: set[tuple[str, str]] = set()
        self._unknown_since: dict[tuple[str, str], float] = {}

    @property
    def unknown(self) -> int:
        """How many were ever found that nobody knew."""
        return len(self._unknown_since)

    def note(self, node: Named) -> None:
        """Take what a name's key says now."""
        before = self._now.get(node.name)
        if before is not None and before.instance != node.instance:
            self._former.add((before.name, before.instance))
        if node.follows:
            self._former.add((node.name, node.follows))
        self._now[node.name] = node

    def miss(self, name: str) -> None:
        """A name's key is gone, and with it whoever spoke for its instance: one that lived is unknown from now on."""
        node = self._now.pop(name, None)
        if node is not None and not node.is_alive:
            self._former.add((name, node.instance))

    def is_over(self, name: str, instance: str, now: float, silence_s: float) -> bool:
        """Whether an instance that wrote something is over; `silence_s` is T."""
        node = self._now.get(name)
        if node is not None and node.instance == instance:
            return not node.is_alive
        if (name, instance) in self._former:
            return True
        if self.heard_at == -inf:
            return False
        since = self._unknown_since.get((name, instance))
        if since is None:
            since = self._unknown_since[name, instance] = now
            _log.warning(
                "unknown instance node=%s instance=%s, over if not heard of in %g s", name, instance, silence_s
            )
        return self.heard_at - since >= silence_s
