"""Examples for the help on queries, made from a page of the collection, so that they find something.

Each example has the form of the query that the help explains. The page is one in the reader's language, if there is one
in the sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from teia.index.entry import IndexEntry
from teia.indexer.open_search import PAGES, Searchable
from teia.search.query.analysis import stem_of
from teia.search.query.words import WORD, words_of

READ_CHARS = 5_000
MIN_WORDS = 3
AGES_DAYS = (7, 30, 365, 3_650, 36_500)
_DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class HelpQueries:
    """Example queries: words, operators, filters; `days` is the age in one of the filters."""

    words: tuple[str, ...]
    operators: tuple[str, ...]
    filters: tuple[str, ...]
    days: int = 7


EMPTY_COLLECTION = HelpQueries(
    ("coffee car cake", "+hearing +aid", "+browser -firefox", '"search engines"', '"annual report" date', "budg*",
     '="New York"'),
    ("income AND tax", "cat NOT dog", "(house OR flat) AND rent", "recipe -(+cake +chocolate)"),
    ("law site:example.org", "python lang:en", "manual type:pdf", "title:budget", "link:https://example.org/",
     "report after:2026-03", "report before:2026", "report after:7d", "-site:example.org law",
     "expand:on solar energy"),
)  # fmt: skip
"""Examples where nothing can be found yet."""


def help_queries(opened: Searchable, language: str, now_s: float) -> HelpQueries:
    """Return examples that find pages of a collection."""
    pages = opened.some(PAGES)
    in_language = [page for page in pages if page.language == language]
    in_others = [page for page in pages if page.language]
    for page in (*in_language, *in_others, *pages):
        words = _telling_words(page)
        if len(words) >= MIN_WORDS and (found := _queries(page, words, pages, now_s)) is not None:
            return found
    return EMPTY_COLLECTION


def _telling_words(page: IndexEntry) -> list[str]:
    """Return words of a page's text, one of each stem, those of its title first."""
    stems: dict[str, str] = {}
    text = page.text[:READ_CHARS]
    in_text = {stem_of(word) for word in words_of(text)}
    for word in words_of(f"{page.title}\n{text}"):
        if len(word) >= 4 and word.isalpha() and (stem := stem_of(word)) in in_text and stem:
            stems.setdefault(stem, word)
    return list(stems.values())


def _queries(page: IndexEntry, words: Sequence[str], pages: Sequence[IndexEntry], now_s: float) -> HelpQueries | None:
    first, second, third = words[:3]
    here = {stem_of(word) for word in words_of(f"{page.title}\n{page.text}")}
    others = [word for other in pages for word in _telling_words(other)[:5] if stem_of(word) not in here]
    absent, absent_too = [*dict.fromkeys(others), "firefox", "xylophone"][:2]
    forms = [match.group() for match in WORD.finditer(page.text[:READ_CHARS])]
    neighbours = _adjacent(page.text[:READ_CHARS])
    if neighbours is None:
        return None
    phrase = " ".join(map(str.lower, neighbours))
    spelt = next((form for form in forms if form[:1].isupper() and len(form) >= 4), forms[0])
    title = next((word for word in words_of(page.title) if stem_of(word)), "")
    dated_s = page.date_s or page.visited_s
    date = datetime.fromtimestamp(dated_s, UTC)
    age_days = max(0.0, now_s - dated_s) / _DAY_S
    days = next((days for days in AGES_DAYS if age_days < days), AGES_DAYS[-1])
    return HelpQueries(
        (f"{first} {second} {third}", f"+{first} +{second}", f"+{first} -{absent}", f'"{phrase}"',
         f'"{phrase}" {third}', f"{first[:4]}*", f'="{spelt}"'),
        (f"{first} AND {second}", f"{first} NOT {absent}", f"({absent} OR {first}) AND {second}",
         f"{first} -(+{absent} +{absent_too})"),
        (f"{first} site:{page.host}", f"{first} lang:{page.language or 'en'}", f"{first} type:html",
         f"title:{title or first}", f"link:{_linked(pages) or 'https://example.org/'}",
         f"{first} after:{date:%Y-%m}", f"{first} before:{date.year + 1}", f"{first} after:{days}d",
         f"-site:example.org {first}", f"expand:on {first} {second}"),
        days,
    )  # fmt: skip


def _adjacent(text: str) -> tuple[str, str] | None:
    """Return two words that a blank separates."""
    for one, other in pairwise(WORD.finditer(text)):
        if text[one.end() : other.start()] == " " and stem_of(one.group()) and stem_of(other.group()):
            return one.group(), other.group()
    return None


def _linked(pages: Sequence[IndexEntry]) -> str:
    """Return the URL of a page to which another one links."""
    targets = {link.key for page in pages for link in page.links}
    return next((page.url for page in pages if page.key in targets), "")
