"""Candidates to judge: the best pages of rankings that differ in kind, so that no system is judged by its own choice.

    python -m bench.relevance.pool              pages that the rankings put high and that were not judged
    python -m bench.relevance.pool en-topic-01  the same for one query, of either set

Six rankings, each only over the pages in the query's language: BM25 of words as written, of stems, of stems with a
heavy title, of the best passage of a page; cosine of latent semantic vectors; cosine of 4-grams of letters. They are
written with numpy and scipy and share only analysers with tantivy. `python -m bench.relevance --unjudged` lists a
system's own unjudged pages.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

from bench.relevance import judged
from bench.relevance.analysis import LANGUAGES, folded_words, plain_words, stems
from bench.relevance.corpus import SETS, Document, JudgedSet, collect

DEPTH = 15
K1, B = 1.2, 0.75
TITLE_WEIGHT = 3.0
PASSAGE_STEMS, PASSAGE_STEP = 150, 75
TOPICS = 100
Terms = list[str]
Scores = npt.NDArray[np.float64]
Ranking = Callable[[str], Scores]


class Counts:
    """Frequencies of each term in each text, with BM25 and tf-idf weights over them."""

    def __init__(self, texts: Iterable[Terms]) -> None:
        self.columns: dict[str, int] = {}
        rows, columns, counts = [], [], []
        for row, terms in enumerate(texts):
            for term, count in Counter(terms).items():
                rows.append(row)
                columns.append(self.columns.setdefault(term, len(self.columns)))
                counts.append(float(count))
        shape = (max(rows) + 1, len(self.columns))
        self.counts = csr_array((counts, (rows, columns)), shape=shape)
        documents = np.bincount(self.counts.indices, minlength=shape[1])
        self.idf = np.log(1 + (shape[0] - documents + 0.5) / (documents + 0.5))

    def query(self, terms: Terms) -> Scores:
        vector = np.zeros(len(self.columns))
        for term in terms:
            if term in self.columns:
                vector[self.columns[term]] += 1
        return vector

    def bm25(self) -> csr_array:
        lengths = self.counts.sum(axis=1)
        weights = self.counts.copy()
        norm = np.repeat(K1 * (1 - B + B * lengths / lengths.mean()), np.diff(weights.indptr))
        weights.data = weights.data * (K1 + 1) / (weights.data + norm) * self.idf[weights.indices]
        return weights

    def tfidf(self) -> csr_array:
        weights = self.counts.copy()
        weights.data = (1 + np.log(weights.data)) * self.idf[weights.indices]
        lengths = np.sqrt((weights * weights).sum(axis=1))
        weights.data = weights.data / np.repeat(np.maximum(lengths, 1e-9), np.diff(weights.indptr))
        return weights


def by_bm25(texts: Iterable[Terms], analyse: Callable[[str], Terms]) -> Ranking:
    counts = Counts(texts)
    weights = counts.bm25()
    return lambda query: weights @ counts.query(analyse(query))


def by_title(titles: Ranking, text: Ranking) -> Ranking:
    return lambda query: text(query) + TITLE_WEIGHT * titles(query)


def by_passage(texts: Sequence[Terms], analyse: Callable[[str], Terms]) -> Ranking:
    """Rank pages by the best of their windows, so that a good section of a long chapter is found."""
    passages, owners = [], []
    for owner, terms in enumerate(texts):
        for start in range(0, max(1, len(terms) - PASSAGE_STEP), PASSAGE_STEP):
            passages.append(terms[start : start + PASSAGE_STEMS])
            owners.append(owner)
    rank = by_bm25(passages, analyse)

    def best(query: str) -> Scores:
        scores = np.zeros(len(texts))
        np.maximum.at(scores, np.array(owners), rank(query))
        return scores

    return best


def by_meaning(texts: Iterable[Terms], analyse: Callable[[str], Terms]) -> Ranking:
    counts = Counts(texts)
    _, _, axes = svds(counts.tfidf(), k=TOPICS, rng=np.random.default_rng(1))
    pages = counts.tfidf() @ axes.T
    pages /= np.maximum(np.linalg.norm(pages, axis=1, keepdims=True), 1e-9)
    return lambda query: pages @ (axes @ (counts.query(analyse(query)) * counts.idf))


def by_letters(texts: Iterable[str]) -> Ranking:
    counts = Counts(grams(text) for text in texts)
    weights = counts.tfidf()
    return lambda query: weights @ (counts.query(grams(query)) * counts.idf)


def grams(text: str, size: int = 4) -> Terms:
    words = [f" {word} " for word in folded_words().analyze(text)]
    return [word[start : start + size] for word in words for start in range(max(1, len(word) - size + 1))]


def rankings(documents: Sequence[Document], language: str) -> dict[str, Ranking]:
    stem = stems(language).analyze
    texts = [each.page.text for each in documents]
    stemmed = [stem(text) for text in texts]
    by_stems = by_bm25(stemmed, stem)
    word = plain_words().analyze
    return {
        "words": by_bm25([word(text) for text in texts], word),
        "stems": by_stems,
        "title": by_title(by_bm25([stem(each.page.title) or [""] for each in documents], stem), by_stems),
        "passage": by_passage(stemmed, stem),
        "meaning": by_meaning(stemmed, stem),
        "letters": by_letters(texts),
    }


def candidates(documents: Sequence[Document], ranks: dict[str, Ranking], query: str) -> dict[str, list[str]]:
    """Return the pages that at least one ranking puts among its first `DEPTH`, with the names of these rankings."""
    found: dict[str, list[str]] = {}
    for name, rank in ranks.items():
        scores = rank(query)
        order = [row for row in np.argsort(-scores, kind="stable")[:DEPTH] if scores[row] > 0]
        for row in order:
            found.setdefault(documents[row].id, []).append(name)
    return found


def main(wanted: Sequence[str]) -> None:
    for each in SETS.values():
        if not wanted or any(query.id in wanted for query in judged.queries(each)):
            _print_unjudged(each, wanted)


def _print_unjudged(judged_set: JudgedSet, wanted: Sequence[str]) -> None:
    judgements = judged.judgements(judged_set)
    documents = sorted(collect(judged=judged_set), key=lambda each: each.id)
    for language in LANGUAGES:
        pages = [each for each in documents if each.language == language]
        queries = [each for each in judged.queries(judged_set) if each.language == language]
        ranks = rankings(pages, language)
        for query in queries if not wanted else [each for each in queries if each.id in wanted]:
            for document, names in candidates(pages, ranks, query.text).items():
                if document not in judgements.get(query.id, {}):
                    print(query.id, document, ",".join(names), sep="\t")


if __name__ == "__main__":
    main(sys.argv[1:])
