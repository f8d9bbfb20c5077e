"""Training of a latent semantic model from the pages of the index (see semantic.py for its use).

Rows of `(1 + ln tf) x idf`, each of length 1, of at most 2,000 pages drawn at random, no two with the same words; the
axes are their strongest hundred, found by a randomised SVD. Then every page gets its position on them. The same pages
and the same seed give the same model.

The bags of stems come from the indexer's memory (index/training_words.py), or are made from the pages of the index.

A model is not used where it harms. The titles of some pages are taken away from them and become queries. If pages are
found much worse by their own titles than with BM25 alone (`titles_found`), the model is left unused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from teia.index.entry import IndexEntry
from teia.index.stems import MAX_STEMS as MAX_NUMBERS
from teia.index.stems import Words
from teia.index.training_words import Bag, Bags, bag_of
from teia.search.rank import _sparse
from teia.search.rank.formula import RERANKED, Weights
from teia.search.rank.rows import Floats
from teia.search.rank.semantic import Model, add_meaning

AXES = 100
MAX_TRAINED = 2_000
MAX_STEMS = 20_000
MIN_PAGES_OF_STEM = 2
AT_ONCE = 1_000

OVERSAMPLED, ITERATIONS = 10, 1
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
STEP = 127
"""Largest number of an octet with a sign."""

Pages = Callable[[], Iterable[IndexEntry]]
"""Source of all pages, which starts anew each time it is called."""

T = TypeVar("T")
Ids = NDArray[np.int32]
Singles = NDArray[np.float32]
_LOGS = (1 + np.log(np.maximum(np.arange(256), 1))).astype(np.float32)


@dataclass(frozen=True, slots=True)
class SparseRows:
    """Rows of numbers, most of them 0: the columns and values of the others, and where each row begins.

    scipy.sparse takes longer to import than all products of a small collection.
    """

    starts: NDArray[np.int64]
    columns: Ids
    values: Singles
    width: int

    def __len__(self) -> int:
        return len(self.starts) - 1

    def times(self, matrix: Singles) -> Singles:
        product = np.zeros((len(self), matrix.shape[1]), np.float32)
        _sparse.times(self.starts, self.columns, self.values, np.ascontiguousarray(matrix), product)
        return product

    def transposed_times(self, matrix: Singles) -> Singles:
        product = np.zeros((self.width, matrix.shape[1]), np.float32)
        _sparse.transposed_times(self.starts, self.columns, self.values, np.ascontiguousarray(matrix), product)
        return product


@dataclass(frozen=True, slots=True)
class Axes:
    """The stems of a model, the column of each stem's number (or -1), the idf of each column, and the axes."""

    stems: list[str]
    columns: Ids
    idfs: Singles
    axes: Singles
    is_helpful: bool

    def project(self, bags: Sequence[Bag]) -> NDArray[np.int8]:
        """Return the positions of pages, each scaled to octets; memory holds one batch of rows."""
        parts = [_to_octets(_weighted(some, self.columns, self.idfs).times(self.axes))[0] for some in _batches(bags)]
        return np.concatenate(parts) if parts else np.zeros((0, self.axes.shape[1]), np.int8)

    def model(self, keys: Sequence[int], vectors: NDArray[np.int8]) -> Model:
        # Sorted by key for the bisection in `Model.positions`.
        order = np.argsort(np.array(keys, np.int64))
        axes, scales = _to_octets(self.axes)
        stems = {stem: row for row, stem in enumerate(self.stems)}
        return Model(stems, self.idfs * scales, axes, np.array(keys, np.int64)[order], vectors[order], self.is_helpful)


def train(pages: Pages, *, seed: int, min_pages: int = 3, axes: int = AXES) -> Model | None:
    """Train a model on a collection; return None if it is too small.

    Axes come from a sample, positions are of all pages.
    """
    random = np.random.default_rng(seed)
    words, bags = Words(), Bags()
    sample: list[Bag] = []
    total = 0
    for total, entry in enumerate(pages(), start=1):
        place = total - 1 if total <= MAX_TRAINED else int(random.integers(total))
        # Once the bags are full they are of no use, and only pages of the sample are analysed.
        if bags.is_full and place >= MAX_TRAINED:
            continue
        bag = bag_of(entry, words)
        bags.add(entry.key, bag)
        if place < MAX_TRAINED:
            sample[place : place + 1] = [bag]  # one more, or another one
    if not bags.is_full:
        return train_on(bags, words, seed=seed, min_pages=min_pages, axes=axes)
    found = _find_axes(list(dict.fromkeys(sample)), words.stems(), axes, random) if total >= min_pages else None
    if found is None:
        return None
    keys: list[int] = []
    parts = []
    for some in _batches(pages()):
        keys += [entry.key for entry in some]
        parts.append(found.project([bag_of(entry, words) for entry in some]))
    return found.model(keys, np.concatenate(parts))


def train_on(bags: Bags, words: Words, *, seed: int, min_pages: int = 3, axes: int = AXES) -> Model | None:
    """Train a model on the bags of a collection, whose stems have the numbers that `words` gave them."""
    random = np.random.default_rng(seed)
    if len(bags.pages) < min_pages:
        return None
    # By key, because pages come in any order. Pages with the same words have one bag.
    keys, every = sorted(bags.pages), bags.bags
    places = {number: place for place, number in enumerate(dict.fromkeys(map(bags.pages.__getitem__, keys)))}
    different = [every[number] for number in places]
    drawn = random.permutation(len(different))[:MAX_TRAINED]
    found = _find_axes([different[place] for place in drawn], words.stems(), axes, random)
    if found is None:
        return None
    return found.model(keys, found.project(different)[[places[bags.pages[key]] for key in keys]])


def _find_axes(sample: Sequence[Bag], stems: Sequence[str], most: int, random: np.random.Generator) -> Axes | None:
    """Return the axes of some pages; None if they have too few words."""
    columns, idfs = _telling_stems(sample, stems)
    if len(idfs) < 3:
        return None
    names = [""] * len(idfs)
    for number in np.flatnonzero(columns >= 0).tolist():
        names[columns[number]] = stems[number]
    # Fewer axes than rows and columns.
    most = min(most, len(idfs) - 1, len(sample) - 1)
    axes = _strongest_axes(_weighted(sample, columns, idfs), most, random)
    is_helpful = titles_found(sample, columns, idfs, axes, random) > -MAX_LOSS
    return Axes(names, columns, idfs, axes, is_helpful)


def _batches(values: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(values)
    while some := list(islice(rest, AT_ONCE)):
        yield some


def _numbers(octets: Iterable[bytes]) -> Ids:
    return np.frombuffer(b"".join(octets), np.int32)


def _telling_stems(sample: Sequence[Bag], stems: Sequence[str]) -> tuple[Ids, Singles]:
    """Return the columns of the stems that several pages have (the most frequent of them), else -1; and their idfs."""
    # Room for all numbers that there can be: pages that are read later may have other stems.
    pages_with = np.bincount(_numbers(bag.stems for bag in sample), minlength=MAX_NUMBERS)
    # By name where frequencies are equal: numbers depend on the order of the pages.
    several = np.flatnonzero(pages_with >= MIN_PAGES_OF_STEM).tolist()
    by_name = np.array(sorted(several, key=stems.__getitem__), np.int32)
    common = by_name[np.argsort(-pages_with[by_name], kind="stable")][:MAX_STEMS]
    columns = np.full(len(pages_with), -1, np.int32)
    columns[common] = np.arange(len(common))
    counts = pages_with[common]
    return columns, np.log(1 + (len(sample) - counts + 0.5) / (counts + 0.5)).astype(np.float32)


def _entries(bags: Sequence[Bag], columns: Ids) -> tuple[Ids, Ids, NDArray[np.uint8]]:
    """Return the row, the column and the count of each stem of some pages; stems without a column are left out."""
    at = columns[_numbers(bag.stems for bag in bags)]
    rows = np.repeat(np.arange(len(bags), dtype=np.int32), [len(bag.counts) for bag in bags])
    counts = np.frombuffer(b"".join(bag.counts for bag in bags), np.uint8)
    is_known = at >= 0
    return rows[is_known], at[is_known], counts[is_known]


def _weighted(bags: Sequence[Bag], columns: Ids, idfs: Singles) -> SparseRows:
    """Return pages as rows of weighted stems, each of length 1."""
    rows, at, counts = _entries(bags, columns)
    weights = _LOGS[counts] * idfs[at]
    lengths = np.sqrt(np.bincount(rows, weights * weights, minlength=len(bags)))
    weights /= np.maximum(lengths, 1e-9)[rows]
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(bags)))])
    return SparseRows(starts, at, weights.astype(np.float32), len(idfs))


def _strongest_axes(rows: SparseRows, most: int, random: np.random.Generator) -> Singles:
    """Return the right singular vectors with the largest values, as columns: a randomised SVD (Halko et al. 2011).

    Only the sides of pages and of axes are made orthogonal: there are more stems than pages.
    """
    width = min(most + OVERSAMPLED, len(rows), rows.width)
    span = _orthogonal(rows.times(random.standard_normal((rows.width, width), np.float32)))
    for _ in range(ITERATIONS):
        span = _orthogonal(rows.times(rows.transposed_times(span)))
    found = rows.transposed_times(span)
    values, turned = np.linalg.eigh((found.T @ found).astype(np.float64))
    strongest = np.argsort(-values)[:most]
    axes: Singles = found @ (turned[:, strongest] / np.sqrt(np.maximum(values[strongest], 1e-12))).astype(np.float32)
    return np.ascontiguousarray(axes)


def _orthogonal(columns: Singles) -> Singles:
    found: Singles = np.linalg.qr(columns)[0].astype(np.float32)
    return found


def _to_octets(rows: Singles) -> tuple[NDArray[np.int8], Singles]:
    """Return rows scaled to octets, and what each is to be multiplied by."""
    scales = np.maximum(np.abs(rows).max(axis=1), 1e-9) / STEP
    return np.rint(rows / scales[:, None]).astype(np.int8), scales.astype(np.float32)


# ---- held-back titles ------------------------------------------------------------------------------------------------


def titles_found(
    sample: Sequence[Bag],
    columns: Ids,
    idfs: Singles,
    axes: Singles,
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
    vectors = _weighted(bags, columns, idfs).times(axes)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    texts = _bm25(bags, columns, idfs, np.unique(np.concatenate([title for _, title in queries])))
    ranks = [
        _reciprocal_ranks(number, title, texts(title), vectors, idfs, axes, weights or Weights())
        for number, title in queries
    ]
    by_words, with_meaning = np.mean(ranks, axis=0).tolist()
    return float(with_meaning / by_words - 1) if by_words else 0.0


def _title_queries(sample: Sequence[Bag], columns: Ids, random: np.random.Generator) -> list[tuple[int, Ids]]:
    """Return some pages with the columns of their titles; no two with the same title, and without names of sites."""
    every = np.bincount(_numbers(bag.title for bag in sample), minlength=len(columns))
    is_name = every >= COMMON_IN_TITLES * len(sample)
    usable = np.where(is_name, -1, columns)
    titles: dict[tuple[int, ...], list[int]] = {}
    for number, bag in enumerate(sample):
        found = usable[np.frombuffer(bag.title, np.int32)]
        titles.setdefault(tuple(sorted(found[found >= 0].tolist())), []).append(number)
    single = [
        (numbers[0], np.array(title, np.int32))
        for title, numbers in titles.items()
        if len(numbers) == 1 and MIN_TITLE_STEMS <= len(title) <= MAX_TITLE_STEMS
    ]
    return [single[at] for at in random.permutation(len(single))[:HELD_BACK]]


def _without_title(bag: Bag) -> Bag:
    """Return a page as if its title were not there: each stem of it once less."""
    stems, counts = np.frombuffer(bag.stems, np.int32), np.frombuffer(bag.counts, np.uint8)
    counts = counts - np.isin(stems, np.frombuffer(bag.title, np.int32))
    return Bag(stems[counts > 0].tobytes(), counts[counts > 0].tobytes(), bag.title)


def _bm25(bags: Sequence[Bag], columns: Ids, idfs: Singles, asked: Ids) -> Callable[[Ids], Floats]:
    """Return a function of some stems, all of them `asked`, that returns the score of each page for them."""
    rows, at, counts = _entries(bags, columns)
    lengths = np.array([sum(bag.counts) for bag in bags], np.float64)
    norms = K1 * (1 - B + B * lengths / max(lengths.mean(), 1.0))
    is_asked = np.zeros(len(idfs), bool)
    is_asked[asked] = True
    chosen = is_asked[at]
    rows, at, counts = rows[chosen], at[chosen], counts[chosen]
    values = idfs[at] * counts * (K1 + 1) / (counts + norms[rows])
    by_column = np.argsort(at, kind="stable")
    starts = np.searchsorted(at[by_column], np.arange(len(idfs) + 1))

    def score(stems: Ids) -> Floats:
        of_them = np.concatenate([by_column[starts[stem] : starts[stem + 1]] for stem in stems])
        scores: Floats = np.bincount(rows[of_them], values[of_them], minlength=len(bags)).astype(np.float64)
        return scores

    return score


def _reciprocal_ranks(
    number: int,
    title: Ids,
    scores: Floats,
    vectors: Singles,
    idfs: Singles,
    axes: Singles,
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
    meant = text + add_meaning(text, vectors[best], query, weights)
    return float(1 / (1 + (text > text[at[0]]).sum())), float(1 / (1 + (meant > meant[at[0]]).sum()))
