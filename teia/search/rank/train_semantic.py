"""Training of a latent semantic model from the pages of the index (see semantic.py for its use).

Rows of `(1 + ln tf) x idf`, each of length 1, of at most 20,000 pages drawn at random; the axes are their strongest
hundred, found by a randomised SVD. Then every page gets its position on them. The same pages and the same seed give the
same model.

A model is not used where it harms. The titles of some pages are taken away from them and become queries. If pages are
found much worse by their own titles than with BM25 alone (`titles_found`), the model is left unused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from teia.index.entry import IndexEntry
from teia.index.schema import GAP
from teia.index.stems import shared_words
from teia.search.rank.formula import RERANKED, Weights
from teia.search.rank.rows import Floats
from teia.search.rank.semantic import Model, add_meaning

AXES = 100
MAX_TRAINED = 20_000
MAX_STEMS = 50_000
MIN_PAGES_OF_STEM = 2
MAX_CHARS = 65_536
AT_ONCE = 1_000

OVERSAMPLED, ITERATIONS = 10, 3
"""Further columns and power iterations of the randomised SVD."""

HELD_BACK = 200
MIN_TITLES = 50
"""Most titles that are held back, and the least number that decides."""

MIN_TITLE_STEMS, MAX_TITLE_STEMS = 2, 8
COMMON_IN_TITLES = 0.1
"""A stem that this share of all titles has is the name of a site."""

MAX_LOSS = 0.15
"""Part of the reciprocal rank of titles that a model may cost; with more it is left unused.

A search for one title gains least: on a manual whose titles lost 6%, judged queries gained 5% (decision 63).
"""

K1, B = 1.2, 0.75

Pages = Callable[[], Iterable[IndexEntry]]
"""Source of all pages, which starts anew each time it is called."""

Ids = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Bag:
    """The stems of a page and how often it has each, and those of its title; as numbers."""

    key: int
    stems: Ids
    counts: Ids
    title: Ids


class StemNumbers:
    """The numbers of stems, given in the order in which they come until `is_closed`; later ones are left out."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.is_closed = False
        self._words = shared_words()

    def bag(self, entry: IndexEntry) -> Bag:
        stems, counts = self._count(f"{entry.title}\n{entry.text[:MAX_CHARS]}")
        return Bag(entry.key, stems, counts, self._count(entry.title)[0])

    def _count(self, text: str) -> tuple[Ids, Ids]:
        found: dict[str, int] = Counter(self._words.of(text)[0].split())
        found.pop(GAP, None)
        numbers = self.numbers
        if self.is_closed:
            found = {stem: count for stem, count in found.items() if stem in numbers}
        stems = np.fromiter((numbers.setdefault(stem, len(numbers)) for stem in found), np.int32, len(found))
        return stems, np.fromiter(found.values(), np.int32, len(found))


def train(pages: Pages, *, seed: int, min_pages: int = 3, axes: int = AXES) -> Model | None:
    """Train a model on a collection; return None if it is too small.

    Axes come from a sample, positions are of all pages.
    """
    random = np.random.default_rng(seed)
    vocabulary = StemNumbers()
    sample, total = _sample(pages, vocabulary, random)
    vocabulary.is_closed = True  # pages outside of the sample must not make it grow without bound
    if total < min_pages:
        return None
    chosen, idfs = _telling_stems(sample, len(vocabulary.numbers))
    if len(idfs) < 3:
        return None
    # Fewer axes than rows and columns.
    most = min(axes, len(idfs) - 1, len(sample) - 1)
    rows = _weighted(sample, chosen, idfs)
    components = _strongest_axes(rows, most, random)
    if total == len(sample):
        keys, vectors = [bag.key for bag in sample], _project(rows, components)
    else:
        keys, vectors = _positions(pages, vocabulary, chosen, idfs, components)
    # Sorted by key for the bisection in `Model.positions`.
    order = np.argsort(np.array(keys, np.int64))
    names = np.array(list(vocabulary.numbers), object)
    stems = {str(names[number]): int(chosen[number]) for number in np.flatnonzero(chosen >= 0)}
    in_order = dict(sorted(stems.items(), key=lambda each: each[1]))
    is_helpful = titles_found(sample, chosen, idfs, components, random) > -MAX_LOSS
    return Model(in_order, idfs, components, np.array(keys, np.int64)[order], vectors[order], is_helpful)


def _sample(pages: Pages, vocabulary: StemNumbers, random: np.random.Generator) -> tuple[list[Bag], int]:
    """Return at most MAX_TRAINED pages, each with the same chance, and the number of all."""
    sample: list[Bag] = []
    total = 0
    for total, entry in enumerate(pages(), start=1):
        if len(sample) < MAX_TRAINED:
            sample.append(vocabulary.bag(entry))
        elif (place := int(random.integers(total))) < MAX_TRAINED:
            sample[place] = vocabulary.bag(entry)
    return sample, total


def _telling_stems(sample: list[Bag], size: int) -> tuple[Ids, NDArray[np.float32]]:
    """Return the columns of the stems that several pages have (the most frequent of them), else -1; and their idfs."""
    pages_with = np.bincount(np.concatenate([bag.stems for bag in sample]), minlength=size) if sample else np.zeros(0)
    common = np.flatnonzero(pages_with >= MIN_PAGES_OF_STEM)
    common = common[np.argsort(-pages_with[common], kind="stable")][:MAX_STEMS]
    columns = np.full(len(pages_with), -1, np.int32)
    columns[common] = np.arange(len(common))
    counts = pages_with[common]
    return columns, np.log(1 + (len(sample) - counts + 0.5) / (counts + 0.5)).astype(np.float32)


def _weighted(bags: list[Bag], columns: Ids, idfs: NDArray[np.float32]) -> csr_array:
    """Return pages as rows of weighted stems, each of length 1."""
    data, indices, lengths = [], [], []
    for bag in bags:
        at = columns[bag.stems]
        weights = (1 + np.log(bag.counts[at >= 0])) * idfs[at[at >= 0]]
        data.append(weights / (np.linalg.norm(weights) or 1.0))
        indices.append(at[at >= 0])
        lengths.append(len(weights))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return csr_array(
        (np.concatenate(data).astype(np.float32), np.concatenate(indices), starts), shape=(len(bags), len(idfs))
    )


def _strongest_axes(rows: csr_array, most: int, random: np.random.Generator) -> NDArray[np.float32]:
    """Return the right singular vectors with the largest values, as columns: a randomised SVD (Halko et al. 2011)."""
    width = min(most + OVERSAMPLED, min(rows.shape))
    span = rows @ random.standard_normal((rows.shape[1], width)).astype(np.float32)
    for _ in range(ITERATIONS):
        span = rows @ np.linalg.qr(rows.T @ np.linalg.qr(span)[0])[0]
    basis = np.linalg.qr(span)[0]
    found: NDArray[np.float32] = np.linalg.svd((rows.T @ basis).T, full_matrices=False)[2][:most].T
    return np.ascontiguousarray(found)


def _positions(
    pages: Pages, vocabulary: StemNumbers, columns: Ids, idfs: NDArray[np.float32], axes: NDArray[np.float32]
) -> tuple[list[int], NDArray[np.float16]]:
    """Return the keys and positions of all pages; memory holds one batch of texts and 200 bytes a page."""
    keys: list[int] = []
    vectors: list[NDArray[np.float16]] = []
    for some in _batches(pages()):
        keys += [entry.key for entry in some]
        vectors.append(_project(_weighted(list(map(vocabulary.bag, some)), columns, idfs), axes))
    return keys, np.concatenate(vectors)


def _project(rows: csr_array, axes: NDArray[np.float32]) -> NDArray[np.float16]:
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


# ---- held-back titles ------------------------------------------------------------------------------------------------


def titles_found(
    sample: list[Bag],
    columns: Ids,
    idfs: NDArray[np.float32],
    axes: NDArray[np.float32],
    random: np.random.Generator,
    weights: Weights | None = None,
) -> float:
    """Return the gain in reciprocal rank of pages that are searched by their titles, relative; 0 if unknown.

    A page that is searched has lost its title once; the others have theirs, as competitors would.
    """
    queries = _title_queries(sample, columns, random)
    if len(queries) < MIN_TITLES:
        return 0.0
    # The pages with their own titles taken away take the places of those they were made of.
    bags = list(sample)
    for number, _ in queries:
        bags[number] = _without_title(sample[number])
    rows = _weighted(bags, columns, idfs)
    vectors = _project(rows, axes)
    texts = _bm25(bags, columns, idfs).tocsc()
    ranks = [
        _reciprocal_ranks(
            number, title, np.asarray(texts[:, title].sum(axis=1)).ravel(), vectors, idfs, axes, weights or Weights()
        )
        for number, title in queries
    ]
    by_words, with_meaning = np.mean(ranks, axis=0).tolist()
    return float(with_meaning / by_words - 1) if by_words else 0.0


def _title_queries(sample: list[Bag], columns: Ids, random: np.random.Generator) -> list[tuple[int, Ids]]:
    """Return some pages with the columns of their titles; no two with the same title, and without names of sites."""
    every = np.bincount(np.concatenate([bag.title for bag in sample]), minlength=len(columns))
    titles: dict[tuple[int, ...], list[int]] = {}
    for number, bag in enumerate(sample):
        found = columns[bag.title[every[bag.title] < COMMON_IN_TITLES * len(sample)]]
        titles.setdefault(tuple(sorted(found[found >= 0].tolist())), []).append(number)
    single = [
        (numbers[0], np.array(title, np.int32))
        for title, numbers in titles.items()
        if len(numbers) == 1 and MIN_TITLE_STEMS <= len(title) <= MAX_TITLE_STEMS
    ]
    return [single[at] for at in random.permutation(len(single))[:HELD_BACK]]


def _without_title(bag: Bag) -> Bag:
    """Return a page as if its title were not there: each stem of it once less."""
    counts = bag.counts - np.isin(bag.stems, bag.title)
    return Bag(bag.key, bag.stems[counts > 0], counts[counts > 0], bag.title)


def _bm25(bags: list[Bag], columns: Ids, idfs: NDArray[np.float32]) -> csr_array:
    lengths = np.array([bag.counts.sum() for bag in bags], np.float64)
    norms = K1 * (1 - B + B * lengths / max(lengths.mean(), 1.0))
    data, indices, starts = [], [], [0]
    for bag, norm in zip(bags, norms, strict=True):
        at = columns[bag.stems]
        counts = bag.counts[at >= 0]
        data.append(idfs[at[at >= 0]] * counts * (K1 + 1) / (counts + norm))
        indices.append(at[at >= 0])
        starts.append(starts[-1] + len(counts))
    return csr_array((np.concatenate(data), np.concatenate(indices), starts), shape=(len(bags), len(idfs)))


def _reciprocal_ranks(
    number: int,
    title: Ids,
    scores: Floats,
    vectors: NDArray[np.float16],
    idfs: NDArray[np.float32],
    axes: NDArray[np.float32],
    weights: Weights,
) -> tuple[float, float]:
    """Return the reciprocal rank of a page by words, and that with meaning."""
    best = np.argsort(-scores, kind="stable")[:RERANKED]
    at = np.flatnonzero(best == number)
    if not len(at) or scores[number] <= 0:
        return 0.0, 0.0
    text = scores[best] / scores[best[0]]
    query = idfs[title] @ axes[title]
    query /= float(np.linalg.norm(query)) or 1.0
    meant = text + add_meaning(text, vectors[best].astype(np.float32), query, weights)
    return float(1 / (1 + (text > text[at[0]]).sum())), float(1 / (1 + (meant > meant[at[0]]).sum()))
