"""Change the settings of a collection, whether or not it is being crawled (A10).

The caller edits the collection's teia.toml atomically, and then notifies the running crawler, if there is one, through
`control.sqlite`. The crawler (crawler_reports.py) applies the same edits to the settings it runs with, which may differ
from the file by the flags of the run. A death at any instant leaves the old file or the new one, and the next crawl
uses that.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from teia.clock import Clock
from teia.collections.edits import Edit, apply_edits, to_json
from teia.collections.inbox import ControlFile
from teia.collections.stored import amend, is_clustered, no_node_error, saved
from teia.config.sections import Config
from teia.config.tree import value_of
from teia.errors import StoreError
from teia.store.root import Root

ANSWER_TIMEOUT_S = 10.0
POLL_S = 0.02


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
    control = ControlFile(root.path / "control.sqlite")
    try:
        if is_clustered(root.collection(name)):
            before, after, answer = _change_cluster(root, control, name, edits, clock)
        else:
            with root.collection(name).editing():
                # The file first, then the request: a death in between leaves the change in the file.
                before, after = amend(root, name, edits)
                number = control.request_change(name, to_json(edits), clock.now_s())
            answer = _wait_for_answer(control, name, number, clock)
    finally:
        control.close()
    if "error" in answer:
        raise StoreError(f"the running crawl of {name!r} rejected it: {answer['error']}")
    keys = list(dict.fromkeys(edit.key for edit in edits))
    settings = {key: (value_of(before, key), value_of(after, key)) for key in keys}
    now = tuple(key for key in keys if key in answer.get("now", ()))
    return SettingsChange(name, settings, bool(answer), now, tuple(key for key in keys if key not in now))


def _change_cluster(
    root: Root, control: ControlFile, name: str, edits: Sequence[Edit], clock: Clock
) -> tuple[Config, Config, dict[str, Any]]:
    """Have the node that runs here propose a change to the cluster; each node writes the file once all agreed."""
    before = saved(root, name).config
    apply_edits(before, edits)  # raise an error before anything is written
    if control.running_crawl(name) is None:
        raise no_node_error(root.collection(name))
    answer = _wait_for_answer(control, name, control.request_change(name, to_json(edits), clock.now_s()), clock)
    if not answer:
        raise no_node_error(root.collection(name))
    return before, saved(root, name).config, answer


def _wait_for_answer(control: ControlFile, name: str, number: int, clock: Clock) -> dict[str, Any]:
    """Wait for the running crawl's answer to a change; return an empty dict if no crawl is running."""
    until = clock.ticks_s() + ANSWER_TIMEOUT_S
    while control.running_crawl(name) is not None:
        answer = control.answer(number)
        if answer is not None:
            return dict(json.loads(answer))
        if clock.ticks_s() > until:
            raise StoreError(
                f"the settings of {name!r} were saved, but its crawl did not respond in time; check whether its"
                " process is stopped"
            )
        time.sleep(POLL_S)
    return {}
