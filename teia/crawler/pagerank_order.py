"""PageRank scores of the indexer, applied to a crawl whose order is `pagerank` (A6).

The indexer replaces the collection's rank file every few minutes (ranks.py). The commit thread looks for a new file,
and then ranks the waiting URLs by it, for a short time with each commit (pagerank_scores.py). As long as there is no
file, because there is no index or only a young one, URLs are ranked by the number of links to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from teia.clock import Clock
from teia.crawler.open_cell import Cell, Touched
from teia.errors import CorruptFile
from teia.frontier.cell.pagerank_scores import apply_scores, is_ranked_by, use_link_worth
from teia.graph.rankfile import NO_STAMP, RankFile

RELOAD_EVERY_S = 5.0
RANK_S = 0.05
"""Time that one commit may spend ranking URLs by new scores."""


class CrawlPageRank:
    """PageRank scores of a crawl; owned by the commit thread, but any thread may read `has_pending_work`.

    `has_pending_work`: there are scores by which not all URLs are ranked yet.
    """

    def __init__(self, path: Path, cells: Sequence[Cell], clock: Clock) -> None:
        self.has_pending_work = False
        self._file = RankFile(path)
        self._cells = cells
        self._clock = clock
        self._reload()

    def _reload(self) -> None:
        """Load a new rank file, if there is one; an unreadable file is ignored, because the indexer writes it again."""
        self._reload_at = self._clock.ticks_s() + RELOAD_EVERY_S
        with suppress(CorruptFile):
            if self._file.reload() and self._file.stamp != NO_STAMP:
                for cell in self._cells:
                    use_link_worth(cell.frontier, self._file)
                self.has_pending_work = True

    def rank_again(self) -> Touched:
        """Rank URLs by new scores, as many as there is time for; return hosts whose queue has changed."""
        if self._clock.ticks_s() >= self._reload_at:
            self._reload()
        until = self._clock.ticks_s() + RANK_S
        moved: Touched = []
        while self.has_pending_work and self._clock.ticks_s() <= until:
            # Positions are stored in the cells, so that after a crash the first unfinished one is found again.
            cell = next((each for each in self._cells if not is_ranked_by(each.frontier, self._file)), None)
            self.has_pending_work = cell is not None
            if cell is not None:
                with cell.frontier.transaction() as frontier:
                    hosts = apply_scores(frontier, self._file, lambda: self._clock.ticks_s() < until)
                moved.append((cell, hosts))
        return moved
