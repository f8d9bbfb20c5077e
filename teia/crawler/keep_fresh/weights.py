"""Importance of pages for revisits: `refresh.weights` (P1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import NamedTuple

import numpy as np

from teia.config.sections import RefreshSettings
from teia.crawler.keep_fresh.host_plan import UNSEEN, Weigh, equal_weights
from teia.durable import disk_errors
from teia.errors import ConfigError, CorruptFile
from teia.frontier.cell.revisits import CapturedPage
from teia.graph.rankfile import NO_STAMP, RankFile
from teia.refresh.history import DAY_S, decode_columns
from teia.refresh.rates import Floats
from teia.store.root import CollectionFolder
from teia.urls import from_user, key_of

MARK = "# taken in: "
"""Beginning of the lines of `hits.txt` that say which logs were imported."""


def weigher(settings: RefreshSettings, ranks: Path) -> Weigh:
    """Return the function that weighs pages; `ranks` is the collection's rank file, which may be missing."""
    if settings.weights == "in_links":
        return lambda pages: 1.0 + _in_links(pages)
    if settings.weights == "pagerank":
        return _ByRank(ranks)
    if settings.weights == "changes":
        return _change_frequency
    if settings.weights == "file":
        return _ByTable(_read_weights(Path(settings.weights_file)))
    if settings.weights == "hits":
        hits, _ = read_hits(ranks.parent / "hits.txt")
        return _ByTable({key_of(url): 1.0 + number for url, number in hits.items()})
    return equal_weights


def weigh_keys(weigh: Weigh, found: Sequence[tuple[int, int]]) -> list[float]:
    """Return the weights of URLs, visited or not, by (key, number of links to it)."""
    pages = [CapturedPage(key, "", 0, links, "", 0, 0, 0, 0, 0, 0.0, 0.0, b"") for key, links in found]
    return [float(weight) for weight in weigh(pages)] if pages else []


def _in_links(pages: Sequence[CapturedPage]) -> Floats:
    return np.array([page.in_links for page in pages], dtype=np.float64)


def _change_frequency(pages: Sequence[CapturedPage]) -> Floats:
    """Return changes a day as the visits saw them, with one change in one day added; 1 for pages not revisited."""
    seen = decode_columns([page.record or UNSEEN for page in pages])
    in_gaps_s = np.bincount(seen.page_of_gap, seen.gap_s * seen.gap_weight, minlength=len(seen))
    frequency: Floats = (1.0 + seen.changes) / (1.0 + (seen.quiet_s + in_gaps_s) / DAY_S)
    return frequency


class _ByRank:
    """Weights in proportion to PageRank; a page without a score gets the average for its number of links."""

    def __init__(self, path: Path) -> None:
        self._file = RankFile(path)

    def __call__(self, pages: Sequence[CapturedPage]) -> Floats:
        with suppress(CorruptFile):  # ignored: the indexer writes the file again
            self._file.reload()
        # Until there are ranks, the number of links stands in for them.
        if self._file.stamp == NO_STAMP or not self._file.alone > 0:
            return 1.0 + _in_links(pages)
        scores = self._file.scores(np.array([page.key for page in pages], dtype=np.int64)).astype(np.float64)
        guessed = 1.0 + self._file.per_link / self._file.alone * _in_links(pages)
        return np.where(scores > 0, scores / self._file.alone, guessed)


class _ByTable:
    """Weights of pages by their keys; 1 for pages that are not in the table."""

    def __init__(self, weights: Mapping[int, float]) -> None:
        self._keys = np.array(sorted(weights), dtype=np.int64)
        self._weights = np.array([weights[key] for key in self._keys.tolist()], dtype=np.float64)

    def __call__(self, pages: Sequence[CapturedPage]) -> Floats:
        if not len(self._keys):
            return np.ones(len(pages))
        keys = np.array([page.key for page in pages], dtype=np.int64)
        # `searchsorted` may point behind the end; the comparison below rejects that.
        positions = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[positions] == keys, self._weights[positions], 1.0)


def _read_weights(path: Path) -> dict[int, float]:
    """Read the user's file: `URL WEIGHT` a line, `#` begins a comment."""
    weights: dict[int, float] = {}
    with disk_errors(path, "read"):
        lines = path.read_text("utf-8", "replace").splitlines()
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        address, _, text = line.strip().replace("\t", " ").rpartition(" ")
        url = from_user(address.strip())
        try:
            weight = float(text)
        except ValueError:
            weight = -1.0
        if url is None or not (isfinite(weight) and weight >= 0):
            raise ConfigError(f"{path}, line {number}: {line.strip()!r} must be a URL and a weight, a number >= 0")
        weights[key_of(url)] = weight
    return weights


# ---- hits of imported access logs ------------------------------------------------------------------------------------


class LogBeginning(NamedTuple):
    """The beginning of a log: so many octets, with this digest."""

    size: int
    digest: str


def hits_file(folder: CollectionFolder) -> Path:
    """Return the path of a collection's page request counts; the file may be missing."""
    return folder.path / "hits.txt"


def read_hits(path: Path) -> tuple[Counter[str], list[LogBeginning]]:
    """Return hits by URL, and the marks of the logs they are from."""
    hits, marks = Counter[str](), list[LogBeginning]()
    if path.exists():
        with disk_errors(path, "read"):
            lines = path.read_text("utf-8", "replace").splitlines()
        for line in lines:
            if line.startswith(MARK):
                size, digest, *_ = [*line.removeprefix(MARK).split(" "), ""]
                if size.isascii() and size.isdigit():
                    marks.append(LogBeginning(int(size), digest))
                continue
            url, _, number = line.rpartition(" ")
            if number.isascii() and number.isdigit() and url:
                hits[url] += int(number)
    return hits, marks
