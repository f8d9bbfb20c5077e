"""A second look at the first results: do the words of the query stand together, and is the page more than a list?

    factor = 1 + 0.2 x line + 0.4 x titled line + 0.15 x length - 0.3 x links + spelt (3 x for single words)

    line          share of the query's words in the best line of content; a line of a list is none (show/content.py)
    titled line   the same with the words of the title, in any line: `vec push` is a line about *push* on the page *Vec*
    length        log10(1 + characters / 1000), if the title begins with a word of the query and a line has all the
                  others: then the whole page is on this subject, and its length is no reason to doubt it
    links         share of the text that is links to other pages
    spelt         share of the texts typed with signs (`c++`, `.net`, `node.js`, `/etc/fstab`) that the page has, so
                  spelt; the index has no signs: `c++` is a word there that is on many pages, and `node.js` is two words

BM25 divides by the length of a page, so a long reference page loses against short pages that mention the words. A line
has the same chance on every page. Indexes and lists of links have every word, and few of them in one line of content.

The text of a page is needed for all this, so only the first pages are looked at; the others keep their places behind
them. So an answer does not depend on the number of results requested.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import log10

from teia.index.entry import IndexEntry
from teia.search.query.question_words import is_question_word
from teia.search.query.tree import Query, wanted_words
from teia.search.query.words import WORD, words_of
from teia.search.show.content import is_in_list, line_end
from teia.search.show.snippets import Highlighter

LOOKED_AT = 20
LOOKED_AT_FOR_SIGNS = 100
"""Pages that are looked at if the index cannot find what was typed: `c++` is the word `c` there."""

MAX_WORDS = 32
LOOKED_AT_CHARS = 32_768
MAX_SPELT_CHARS = 64
FEW_LINKS = 0.1
"""Share of links in a text up to which it is no list of links."""


@dataclass(frozen=True, slots=True)
class PassageWeights:
    """Weights of the second look."""

    line: float = 0.2
    titled_line: float = 0.4
    length: float = 0.15
    links: float = 0.5
    spelt: float = 1.0
    spelt_word: float = 3.0
    hyphen: float = 0.2


class Passages:
    """The words of one query, as they are looked for in the lines of a page."""

    def __init__(self, query: Query, weights: PassageWeights) -> None:
        self._weights = weights
        wanted = wanted_words(query)
        words = [word for word in wanted if not is_question_word(word)] or list(wanted)
        self._highlighter = Highlighter(dict.fromkeys(words[:MAX_WORDS], 1.0))
        self._whole = self._highlighter.count
        self._spelt = [(_spelt(text), self._weight_of(text)) for text in query.spelt if len(text) <= MAX_SPELT_CHARS]
        is_short = any(weight == weights.spelt_word for _, weight in self._spelt)
        self.looked_at = LOOKED_AT_FOR_SIGNS if is_short else LOOKED_AT
        """Number of the first pages whose order is decided so."""

    def __bool__(self) -> bool:
        return bool(self._whole)

    def factor(self, entry: IndexEntry) -> float:
        """Return the factor of a page's score."""
        text = entry.text[:LOOKED_AT_CHARS]
        title = self._highlighter.marks(entry.title)
        line, titled = self._best_lines(text, {mark[2] for mark in title})
        weights = self._weights
        factor = 1 + weights.line * line + weights.titled_line * titled - weights.links * link_share(entry)
        if titled == 1 and self._whole > 1 and title and not WORD.search(entry.title, 0, title[0][0]):
            factor += weights.length * log10(1 + len(entry.text) / 1000)
        return factor + self._as_spelt(text, entry.title)

    def _weight_of(self, text: str) -> float:
        """Return the weight of a text with signs: `c++` is another word without them, `node.js` is two."""
        if len(words_of(text)) == 1:
            return self._weights.spelt_word
        return self._weights.spelt if WORD.sub("", text) != "-" else self._weights.hyphen

    def _as_spelt(self, text: str, title: str) -> float:
        """Return the addition for texts that the page has as they are spelt."""
        found = (weight for pattern, weight in self._spelt if pattern.search(text) or pattern.search(title))
        return sum(found) / len(self._spelt) if self._spelt else 0.0

    def _best_lines(self, text: str, title: set[int]) -> tuple[float, float]:
        """Return the shares of the words in the best line of content, and in the best line together with the title."""
        best, best_titled = 0, len(title)
        marks = self._highlighter.marks(text)
        at = 0
        while at < len(marks) and best < self._whole:
            place = marks[at][0]
            end = line_end(text, place)
            numbers = set[int]()
            while at < len(marks) and marks[at][0] < end:
                numbers.add(marks[at][2])
                at += 1
            best_titled = max(best_titled, len(numbers | title))
            if len(numbers) > best and not is_in_list(text, text.rfind("\n", 0, place) + 1, end):
                best = len(numbers)
        return best / self._whole, best_titled / self._whole


def link_share(entry: IndexEntry) -> float:
    """Return the share of a page's text that is links to other pages, as far as it makes a list of the page.

    An entry has one text for each page that is linked to. An index of terms links to places in the same few pages again
    and again, so the number of links counts, with the mean length of the texts that are known.
    """
    if not (entry.text and entry.links):
        return 0.0
    written = sum(len(link.text) for link in entry.links)
    share = written * max(1.0, entry.anchor_count / len(entry.links)) / len(entry.text)
    return min(1.0, share) if share > FEW_LINKS else 0.0


def _spelt(text: str) -> re.Pattern[str]:
    """Return a pattern for a text with signs, in any case, that is no part of a longer word."""
    before = r"(?<!\w)" if WORD.match(text[:1]) else r"(?<![\w.])"
    # 3.11 is another version than 3.11.2.
    behind = r"(?!\w|\.\d)" if text[-1:].isdigit() else r"(?!\w)" if WORD.match(text[-1:]) else r"(?![\w+#])"
    return re.compile(before + re.escape(text) + behind, re.IGNORECASE)
