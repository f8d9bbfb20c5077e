"""What nodes agree on: the first one's word holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from teia.cluster.cells.open_cells import prepare_cells
from teia.cluster.members.agreement import agree, agree_on_pace, write_settings
from teia.config.sections import CollectionSettings, Config
from teia.errors import ClusterError, StoreError
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import FoundUrl
from teia.store.root import open_root
from teia.urls import key_of
from tests.cluster.conftest import Nats

SEEDS = ("http://a.test/",)


def settings(name: str, cells: int = 4) -> Config:
    return replace(Config(), collection=CollectionSettings(name=name, seeds=SEEDS, cells=cells))


def test_the_first_nodes_settings_are_everybodys(own_nats: Nats, tmp_path: Path) -> None:
    async def main() -> None:
        wire = await own_nats.wire()
        with pytest.raises(ClusterError, match="has no collection 'news'"):
            await agree(wire, own_nats.clock, "news", None, 1)
        first = await agree(wire, own_nats.clock, "news", settings("news", 4), 1)
        later = await agree(wire, own_nats.clock, "news", settings("news", 16), 1)
        nothing_said = await agree(wire, own_nats.clock, "news", None, 1)
        assert first == later == nothing_said
        assert first.config == settings("news", 4)
        root = open_root(tmp_path / "data", create=True)
        assert write_settings(root, first) == write_settings(root, later) == settings("news", 4)
        assert len(root.collection("news").cells()) == 4
        pace = await agree_on_pace(wire, own_nats.clock, 4.0, 1)
        assert pace == await agree_on_pace(wire, own_nats.clock, 60.0, 1)
        assert (pace.silence_s, pace.beat_s) == (4.0, 0.8)

    own_nats.run(main())


def test_a_folder_of_another_cluster_is_refused(tmp_path: Path) -> None:
    """NATS.md 4: a log that was begun anew is not mixed with an old copy."""
    folder = open_root(tmp_path, create=True).create_collection("news", "", 2)
    prepare_cells(folder, 2, "one")
    prepare_cells(folder, 2, "one")
    with pytest.raises(ClusterError, match="belongs to another cluster"):
        prepare_cells(folder, 2, "other")


def test_a_folder_that_was_crawled_on_one_machine_is_refused(tmp_path: Path) -> None:
    folder = open_root(tmp_path, create=True).create_collection("news", "", 2)
    cell = FrontierCell(folder.cells()[1].frontier)
    with cell.transaction():
        cell.add_links([FoundUrl("a.test", key_of("http://a.test/"), "/", 0)], 1.0)
    cell.close()
    with pytest.raises(ClusterError, match="was crawled on one machine"):
        prepare_cells(folder, 2, "one")


def test_a_folder_of_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "format").write_text("teia 0\n")
    with pytest.raises(StoreError, match="format 0"):
        open_root(tmp_path)
