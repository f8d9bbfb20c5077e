"""Change the settings of a collection, whether or not it is being crawled (A10).

The caller edits the collection's teia.toml atomically, and then notifies the running crawler, if there is one, through
its inbox. The crawler (poll_requests.py) applies the same edits to the settings it runs with, which may differ
from the file by the flags of the run. A death at any instant leaves the old file or the new one, and the next crawl
uses that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from teia.clock import Clock
from teia.collections.edits import Edit, apply_edits
from teia.collections.inbox import ChangeSettings, Inbox
from teia.collections.stored import amend, is_clustered, no_node_error, saved
from teia.config.tree import value_of
from teia.errors import StoreError
from teia.lib.message import Message, decoded
from teia.store.root import Root

ANSWER_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class SettingsChange:
    """Result of a change.

    Old and new values by key, whether a crawl is running, and which keys it applies already (`now`) or after a restart
    (`later`).
    """

    collection: str
    settings: Mapping[str, tuple[Any, Any]]
    running: bool
    now: tuple[str, ...]
    later: tuple[str, ...]


def change(root: Root, name: str, edits: Sequence[Edit], clock: Clock) -> SettingsChange:
    """Change a collection's settings, and wait until a running crawl has applied them."""
    body, is_in_cluster = ChangeSettings(tuple(edits)), is_clustered(root.collection(name))
    with Inbox(root.control) as inbox:
        if is_in_cluster:
            # The node that runs here proposes the change to the cluster; each node writes the file once all agreed.
            before = after = saved(root, name).config
            apply_edits(before, edits)  # raise an error before anything is written
            number = inbox.send(name, body, clock.now_s()) if inbox.running_crawl(name) is not None else 0
        else:
            with root.collection(name).editing():
                # The file first, then the request: a death in between leaves the change in the file.
                before, after = amend(root, name, edits)
                number = inbox.send(name, body, clock.now_s())
        late = Message(
            "the settings of {name!r} were saved, but its crawl did not respond in time; check whether its process is"
            " stopped",
            name=name,
        )
        request = inbox.wait(number, clock, ANSWER_TIMEOUT_S, late)
    answer = None if request is None else request.answer
    if is_in_cluster and answer is None:
        raise no_node_error(root.collection(name))
    if answer is not None and answer.error:
        why = decoded(answer.error)
        raise StoreError(Message("the running crawl of {name!r} rejected it: {why}", name=name, why=why))
    if is_in_cluster:
        after = saved(root, name).config
    keys = list(dict.fromkeys(edit.key for edit in edits))
    settings = {key: (value_of(before, key), value_of(after, key)) for key in keys}
    now = tuple(key for key in keys if answer is not None and key in answer.now)
    return SettingsChange(name, settings, answer is not None, now, tuple(key for key in keys if key not in now))
