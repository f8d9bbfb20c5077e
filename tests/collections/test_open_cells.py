"""Cells opened one after the other."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from teia.clock import WallClock
from teia.collections.bulk import run_actions
from teia.collections.control_file import Inbox, RunBulkAction
from teia.collections.overview import largest_host
from teia.collections.preview_change import count_effect, reconsider_now, sample_effect
from teia.config.load import to_toml
from teia.config.sections import CollectionSettings, Config, ScopeSettings
from teia.frontier.cell.bulk import BulkSelection
from teia.frontier.cell.cell import FrontierCell
from teia.store.root import Root, open_root

CELLS = 40
CONFIG = Config(CollectionSettings(seeds=("http://a.test/",), cells=CELLS))


@pytest.fixture
def few_files() -> Iterator[None]:
    """Let this process open 30 more files, fewer than the cells."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(each.name) for each in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 30, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = open_root(tmp_path / "data", create=True)
    for folder in root.create_collection("main", to_toml(CONFIG), CELLS).cells():
        FrontierCell(folder.frontier).close()
    return root


@pytest.mark.usefixtures("few_files")
def test_a_collection_with_more_cells_than_files_may_be_open_is_read_and_changed(root: Root) -> None:
    after = replace(CONFIG, scope=ScopeSettings(exclude=("host:b.test",)))
    assert largest_host(root, "main") == ("", 0)
    assert count_effect(root, "main", CONFIG, after).known == 0
    assert sample_effect(root, "main", after, WallClock()).effect.known == 0
    reconsider_now(root, "main", after)
    with Inbox(root.control) as inbox:
        inbox.send("main", RunBulkAction("mark", BulkSelection("drop", host="b.test")), 0.0, "user")
    while not run_actions(root, "main", WallClock()):
        pass
