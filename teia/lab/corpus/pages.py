"""The pages of a collection: those of a lab world, longer, and with a realistic distribution of words.

Hosts, URLs, titles, languages, dates and links are a world's (`World`), and so are some paragraphs. The others are made
of words by their rank (vocabulary.py). A page has a subject, one of the few that its host writes about: words that
recur on it and are rare elsewhere. Without subjects, words would be spread over pages at random, unlike real text.

Everything about a page follows from the seed, its host and its number there. So a mirror shows the same page, pages can
be made in any order, and a page need not be stored to be requested again.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import xxhash
from numpy.typing import NDArray

from teia.index.anchors import MAX_TEXTS
from teia.index.entry import Anchor, IndexEntry
from teia.lab.corpus.vocabulary import SIZE, Vocabulary, make_vocabulary, zipf_ranks
from teia.lab.world.pages import FIRST_YEAR, YEARS, PageWriter
from teia.lab.world.spec import WorldSpec
from teia.lab.world.url_kinds import UrlKind
from teia.lab.world.urlspace import UrlSpace
from teia.lab.world.world import World
from teia.lib.simhash import simhash
from teia.urls import cell_of, cell_starts, key_of, site_of, slot_of

PAGES_PER_HOST = 50
"""Number of pages per host, about T8's: 676,261 documents on 14,068 servers."""

MEDIAN_WORDS, SPREAD, MAX_WORDS = 220, 0.9, 10_000
"""Parameters of the log-normal lengths.

With the lab's paragraphs that is a mean of 3.4 kB, as F11's pages have: 2,053 MB of text for 609,212 of them.
"""

SUBJECTS, SUBJECT_WORDS, SUBJECTS_OF_HOST = 4_000, 40, 3
SUBJECT_SHARE = 0.15
"""Share of words that belong to the page's subject."""

SENTENCE_WORDS = (7, 18)
PARAGRAPH_SENTENCES = 5
UNDATED = 0.4
# November 2023; page n was visited n seconds later.
VISITED_S = 1_700_000_000
OUTSIDE_LINKS = 2
COPRIME = 2_654_435_761


@dataclass(frozen=True, slots=True)
class Indexable:
    """A page as the index takes it: the entry, the anchor texts of links to it, and the cell it belongs to."""

    entry: IndexEntry
    anchors: tuple[str, ...]
    cell: int


class Corpus:
    """A collection of `pages` pages, generated on request."""

    def __init__(self, pages: int, seed: int, *, cells: int = 1, words: int = SIZE) -> None:
        self.pages, self.seed, self.cells = pages, seed, cells
        hosts = max(1, pages // PAGES_PER_HOST)
        wanted = {"seed": seed, "pages": pages, "hosts": hosts, "errors.scale": 0.0, "text.paragraphs": 2}
        self._world = World(WorldSpec.from_values({**wanted, "robots.excluded": 0.0}), epoch_s=VISITED_S, port=80)
        self._writer = PageWriter(self._world.spec, self._world.graph, self._world.roots)
        self.vocabularies = {code: make_vocabulary(code, seed, words) for code in ("en", "pt")}
        self._first_pages = np.cumsum([0, *(host.size for host in self._world.hosts)])
        self._starts = cell_starts(cells)
        self._subjects = _subjects(seed, words)

    def indexables(self, first: int = 0, last: int | None = None) -> Iterator[Indexable]:
        """Yield pages in the order of their numbers, in which the hosts take turns as they do in a crawl."""
        for number in range(first, self.pages if last is None else last):
            yield self.indexable(number)

    def indexable(self, number: int) -> Indexable:
        """Generate one page."""
        space, slot = self._locate(number)
        random = np.random.default_rng((self.seed, space.content, slot))
        entry = self._entry(space, slot, VISITED_S + number, random)
        anchors = (entry.title,) * min(MAX_TEXTS, self._count_linking_hosts(space, slot, random))
        return Indexable(entry, anchors, self._cells_of_hosts[space.host.index])

    def _locate(self, number: int) -> tuple[UrlSpace, int]:
        """Return the host and slot of a page number; neighbours by number are not neighbours in the world."""
        # A permutation of all numbers, because COPRIME is a prime that does not divide the number of pages.
        position = number * COPRIME % self.pages
        host = int(np.searchsorted(self._first_pages, position, "right")) - 1
        return self._world.spaces[host], position - int(self._first_pages[host])

    @cached_property
    def _cells_of_hosts(self) -> list[int]:
        return [cell_of(slot_of(site_of(host.name)), self._starts) for host in self._world.hosts]

    # -- the content of a page -----------------------------------------------------------------------------

    def _entry(self, space: UrlSpace, slot: int, visited_s: int, random: np.random.Generator) -> IndexEntry:
        path, title = (each.decode(space.lexicon.codec) for each in space.reference(slot))
        url = self._url(space.host.name, path)
        subject = self._subject(space, random)
        text = self._text(space, slot, subject, random)
        bits = simhash(text.lower())
        language = space.host.language
        return IndexEntry(
            url=url,
            key=key_of(url),
            host=space.host.name,
            digest=xxhash.xxh3_64_digest(text.encode()),
            title=title,
            headings=(self._heading(space, subject, random),),
            text=text,
            description="",
            language=language,
            media_type="application/pdf" if space.kind(slot) is UrlKind.PDF else "text/html",
            date_s=_date_s(random),
            visited_s=visited_s,
            text_digest=_signed(xxhash.xxh3_64_intdigest(text.encode())),
            simhash=_signed(bits),
            links=tuple(self._links(space, slot)),
        )

    def _url(self, host: str, path: str) -> str:
        return self._world.roots[host].decode() + path

    def _subject(self, space: UrlSpace, random: np.random.Generator) -> NDArray[np.int64]:
        """Return the ranks of the words of one of the subjects that a host writes about."""
        index = (space.host.salt + int(random.integers(SUBJECTS_OF_HOST))) % SUBJECTS
        words: NDArray[np.int64] = self._subjects[index]
        return words

    def _text(self, space: UrlSpace, slot: int, subject: NDArray[np.int64], random: np.random.Generator) -> str:
        codec = space.lexicon.codec
        _, *paragraphs = (each.decode(codec) for each in self._writer.texts(space, slot, 0))
        count = min(MAX_WORDS, int(random.lognormal(np.log(MEDIAN_WORDS), SPREAD)))
        words = self._words(self.vocabularies[space.host.language], subject, count, random)
        # The number at the end makes the text of every page different, except on mirrors.
        return "\n".join((*paragraphs, *_paragraphs(words, random), f"n. {space.content * 1_000_003 + slot}"))

    @staticmethod
    def _words(
        vocabulary: Vocabulary, subject: NDArray[np.int64], count: int, random: np.random.Generator
    ) -> list[str]:
        units = random.random((2, count))
        drawn = vocabulary.ranks(units[0])
        of_subject = units[1] < SUBJECT_SHARE
        # Scaled up, the numbers below SUBJECT_SHARE are uniform in [0, 1) again, so one draw serves twice.
        within = zipf_ranks(units[1][of_subject] / SUBJECT_SHARE, SUBJECT_WORDS)
        drawn[of_subject] = subject[within]
        words = vocabulary.words
        return [words[rank] for rank in drawn.tolist()]

    def _heading(self, space: UrlSpace, subject: NDArray[np.int64], random: np.random.Generator) -> str:
        words = self.vocabularies[space.host.language].words
        return " ".join(words[rank] for rank in subject[random.integers(0, SUBJECT_WORDS, 3)].tolist()).capitalize()

    # -- links from and to a page --------------------------------------------------------------------------

    def _links(self, space: UrlSpace, slot: int) -> Iterator[Anchor]:
        """Yield the links of a page, each target once, with the titles of the target pages."""
        links = self._world.graph.page_links(space, slot, self._world.graph.draws(space, slot))
        seen = {slot}
        for target in (*links.children, *links.inside):
            if target not in seen:
                seen.add(target)
                yield self._anchor(space.host.name, space, target)
        for other in links.outside:
            yield self._anchor(other.space.host.name, other.space, other.slot)

    def _anchor(self, name: str, space: UrlSpace, slot: int) -> Anchor:
        path, title = (each.decode(space.lexicon.codec) for each in space.reference(slot))
        return Anchor(key_of(self._url(name, path)), name, title)

    def _count_linking_hosts(self, space: UrlSpace, slot: int, random: np.random.Generator) -> int:
        """Draw the number of hosts that link to a page, its own included; all use its title as the anchor text.

        It is drawn from the expectation of the world's power law, instead of examining all other pages.
        """
        power = self._world.spec.links.power
        share = _power_share(space.host.index, len(self._world.hosts), power) * _power_share(slot, space.size, power)
        return 1 + int(random.poisson(OUTSIDE_LINKS * self.pages * share))


def _subjects(seed: int, words: int) -> NDArray[np.int64]:
    """Draw the ranks of the words of every subject: informative words of all frequencies."""
    random = np.random.default_rng((seed, SUBJECTS))
    least = min(100, words // 2)
    # Uniform in the logarithm of the rank; the first hundred ranks are mostly function words.
    found = np.exp(random.uniform(np.log(least), np.log(words), (SUBJECTS, SUBJECT_WORDS)))
    return np.minimum(found, words - 1).astype(np.int64)


def _power_share(at: int, size: int, power: float) -> float:
    """Return the probability that `int(size * u ** power)` is `at`, for u uniform in [0, 1)."""
    return float(((at + 1) / size) ** (1 / power) - (at / size) ** (1 / power))


def _paragraphs(words: Sequence[str], random: np.random.Generator) -> Iterator[str]:
    """Join words into sentences and sentences into paragraphs."""
    low, high = SENTENCE_WORDS
    lengths = random.integers(low, high, len(words) // low + 1).tolist()
    sentences: list[str] = []
    at = 0
    for length in lengths:
        if at >= len(words):
            break
        sentence = " ".join(words[at : at + length])
        sentences.append(f"{sentence[0].upper()}{sentence[1:]}.")
        at += length
    for start in range(0, len(sentences), PARAGRAPH_SENTENCES):
        yield " ".join(sentences[start : start + PARAGRAPH_SENTENCES])


def _date_s(random: np.random.Generator) -> int:
    """Draw the date that a page states; 0 if it states none."""
    if random.random() < UNDATED:
        return 0
    first, last = (calendar.timegm((year, 1, 1, 0, 0, 0)) for year in (FIRST_YEAR, FIRST_YEAR + YEARS))
    return int(random.integers(first, last))


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number
