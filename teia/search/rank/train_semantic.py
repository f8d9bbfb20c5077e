"""Training of a latent semantic model from the pages of the index (see semantic.py for its use).

Rows of `(1 + ln tf) x idf`, each of length 1, of at most 30,000 pages drawn at random; the axes are their strongest
hundred. Then every page gets its position on them. The same pages and the same seed give the same model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from math import log

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

from teia.index.entry import IndexEntry
from teia.search.query.analysis import stems_in
from teia.search.rank.semantic import Model
from teia.search.rank.tantivy_query import idf

AXES = 100
MIN_PAGES = 2_000
"""Least number of pages; in smaller collections words have too few contexts."""

MAX_TRAINED = 30_000
MAX_STEMS = 50_000
MIN_PAGES_OF_STEM = 2
MAX_CHARS = 65_536
AT_ONCE = 1_000

Pages = Callable[[], Iterable[IndexEntry]]
"""Source of all pages, which starts anew each time it is called."""


def train(pages: Pages, *, seed: int, min_pages: int = MIN_PAGES, axes: int = AXES) -> Model | None:
    """Train a model on a collection; return None if it is too small.

    Axes come from a sample, positions are of all pages.
    """
    random = np.random.default_rng(seed)
    total = sum(1 for _ in pages())
    if total < max(min_pages, 3):
        return None
    is_sampled = random.random(total) < MAX_TRAINED / total
    # strict=False: the index may gain or lose pages between two passes.
    sample = [stems_of(entry) for entry, wanted in zip(pages(), is_sampled, strict=False) if wanted]
    stems, idfs = vocabulary(sample)
    if len(stems) < 3 or len(sample) < 3:
        return None
    # svds needs fewer axes than rows and columns.
    most = min(axes, len(stems) - 1, len(sample) - 1)
    _, _, components = svds(weight_stems(sample, stems, idfs), k=most, rng=random)
    keys: list[int] = []
    vectors: list[NDArray[np.float16]] = []
    # Positions are computed batch by batch, so memory holds one batch of texts and 200 bytes a page.
    for some in _batches(pages()):
        keys += [entry.key for entry in some]
        vectors.append(_project(weight_stems(list(map(stems_of, some)), stems, idfs), components.T))
    # Sorted by key for the bisection in `Model._cosines`.
    order = np.argsort(np.array(keys, np.int64))
    axis_weights = components.T.astype(np.float32)
    return Model(stems, idfs, axis_weights, np.array(keys, np.int64)[order], np.concatenate(vectors)[order])


def _project(rows: csr_array, axes: NDArray[np.float64]) -> NDArray[np.float16]:
    vectors = rows @ axes
    found: NDArray[np.float16] = (vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)).astype(
        "f2"
    )
    return found


def _batches(entries: Iterable[IndexEntry]) -> Iterator[list[IndexEntry]]:
    batch: list[IndexEntry] = []
    for entry in entries:
        batch.append(entry)
        if len(batch) == AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def stems_of(entry: IndexEntry) -> Counter[str]:
    """Return the number of occurrences of each stem in a page."""
    return Counter(stems_in("\n".join((entry.title, entry.text[:MAX_CHARS]))))


def vocabulary(sample: list[Counter[str]]) -> tuple[dict[str, int], NDArray[np.float32]]:
    """Return the most frequent stems that several pages have, and their idfs."""
    pages_with = Counter(stem for counts in sample for stem in counts)
    common = [(-pages, stem) for stem, pages in pages_with.items() if pages >= MIN_PAGES_OF_STEM]
    chosen = sorted(common)[:MAX_STEMS]
    idfs = np.array([idf(-pages, len(sample)) for pages, _ in chosen], np.float32)
    return {stem: row for row, (_, stem) in enumerate(chosen)}, idfs


def weight_stems(pages: list[Counter[str]], stems: dict[str, int], idfs: NDArray[np.float32]) -> csr_array:
    """Return pages as rows of weighted stems, each of length 1."""
    rows, columns, weights = [], [], []
    for row, counts in enumerate(pages):
        known = [(stems[stem], count) for stem, count in counts.items() if stem in stems]
        values = [(1 + log(count)) * float(idfs[column]) for column, count in known]
        length = sum(value * value for value in values) ** 0.5 or 1.0
        rows += [row] * len(known)
        columns += [column for column, _ in known]
        weights += [value / length for value in values]
    return csr_array((np.array(weights, np.float32), (rows, columns)), shape=(len(pages), len(stems)))
