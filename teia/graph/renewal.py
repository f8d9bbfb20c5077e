"""Recomputation of the scores from the links of a collection; the indexer runs it every few minutes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from teia.errors import CorruptFile
from teia.graph.linkfile import Edges
from teia.graph.matrix import build_graph
from teia.graph.pagerank import Ranks, pagerank
from teia.graph.rankfile import RankFile, write_ranks


def update_ranks(link_files: Sequence[Path], rank_file: Path, now_s: float) -> Ranks:
    """Compute PageRank over the link files of all cells, and replace the rank file.

    Link files may be written meanwhile (data flushed before counts), and cells that have none yet may be named. The
    iteration begins with the stored scores, so few changes take few steps. bench/pagerank.py measures the cost; run it
    in the background.
    """
    with ExitStack() as stack:
        graph = build_graph([stack.enter_context(Edges(path)) for path in link_files])
    stored = _stored_ranks(rank_file)
    # Scores are looked up by key: nodes may have come and gone since.
    start = stored.scores(graph.keys).astype(np.float64) if stored is not None else None
    ranks = pagerank(graph, start=start)
    write_ranks(rank_file, ranks, now_s)
    return ranks


def _stored_ranks(rank_file: Path) -> RankFile | None:
    """Return the stored scores; a damaged file counts as none, because it is about to be replaced."""
    try:
        return RankFile.open(rank_file)
    except CorruptFile:
        return None
