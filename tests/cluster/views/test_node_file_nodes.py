"""A real cluster as its nodes tell it: a node is killed, and its cells are seen to move (UX acceptance 20)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from teia.clock import WallClock
from teia.cluster.views.host_lookup import locate_host
from teia.cluster.views.node_file import cluster_source
from teia.cluster.views.view import ClusterView
from teia.store.root import open_root
from tests.cluster.conftest import Nats
from tests.cluster.nodes import CELLS, cluster
from tests.system.labs import running_lab
from tests.waiting import until

SPEC = """
seed = 12
hosts = 12
pages = 400

[errors]
scale = 0

[robots]
crawl_delay_s = 0.3
"""


@pytest.mark.slow
def test_a_killed_nodes_cells_are_seen_to_move_and_no_url_is_lost(own_nats: Nats, tmp_path: Path) -> None:
    with running_lab(tmp_path, SPEC, 177) as lab, cluster(tmp_path, own_nats, lab, 0.3) as nodes:
        for name in "abc":
            nodes.start(name)

        def seen() -> ClusterView:
            return cluster_source(open_root(nodes.data("b")), WallClock()).view()

        def view_where(is_so: Callable[[ClusterView], bool]) -> ClusterView:
            until((nodes.data("b") / "format").exists, "the node makes its folder")
            return until(lambda: view if is_so(view := seen()) else None, "its view", state=lambda: nodes.log_text("b"))

        whole = view_where(lambda view: len(view.nodes) == 3 and all(cell.keeper for cell in view.cells))
        assert len(whole.cells) == CELLS
        circle = whole.circle()
        settled = view_where(
            lambda view: [c.keeper for c in view.cells] == [circle.owner(c.first_slot << 150) for c in view.cells]
        )
        assert {node.state for node in settled.nodes} <= {"normal", "idle"}
        before = {cell.id: cell.urls for cell in settled.cells}
        its = {cell.id for cell in settled.cells if cell.keeper == "a"}
        nodes.kill("a")
        silent = view_where(lambda view: view.nodes[0].state in {"silent", "dead"})
        assert silent.nodes[0].name == "a"
        after = view_where(lambda view: all(cell.keeper in {"b", "c"} for cell in view.cells))
        moves = [move for move in after.moves if move.giver == "a"]
        assert {move.cell for move in moves if move.why == "died"} == its
        assert [move.urls_lost for move in moves] == [0] * len(moves)
        assert all(cell.urls >= before[cell.id] for cell in after.cells)
        (home,) = locate_host(after, "h.test").homes
        assert home.keeper == home.home
