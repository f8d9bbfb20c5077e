"""Scores made anew from the links of a collection: what the indexer does every few minutes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from teia.errors import CorruptFile
from teia.graph.linkfile import Edges
from teia.graph.matrix import graph_of
from teia.graph.pagerank import Ranks, pagerank
from teia.graph.rankfile import RankFile, write_ranks


def renew_ranks(link_files: Sequence[Path], rank_file: Path, now_s: float) -> Ranks:
    """Compute PageRank over the link files of all cells, and replace the rank file.

    Link files may be written meanwhile (what was flushed before counts), and cells that have none yet may be named. The
    scores that lie there are where the iteration begins, so little news takes few steps. For what it costs see
    bench/pagerank.py; run it where nobody waits for it.
    """
    with ExitStack() as stack:
        graph = graph_of([stack.enter_context(Edges(path)) for path in link_files])
    before = _before(rank_file)
    start = before.scores(graph.keys).astype(np.float64) if before is not None else None
    ranks = pagerank(graph, start=start)
    write_ranks(rank_file, ranks, now_s)
    return ranks


def _before(rank_file: Path) -> RankFile | None:
    """The scores that lie there; a damaged file is as good as none, for it is about to be replaced."""
    try:
        return RankFile.open(rank_file)
    except CorruptFile:
        return None
