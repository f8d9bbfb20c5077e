"""Results of a search, with all fields for a user or a program.

`teia search --json` and the API return `as_json` of each; a web page shows the same records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import msgspec

from teia.clock import iso_utc
from teia.index.repeated import Lines
from teia.lib.message import Message
from teia.search.show.snippets import Snippet
from teia.search.show.spelling import Suggestion


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about a page beside its text; None where unknown.

    `fresh_probability` is the probability that our capture still equals the page.
    """

    last_visit_s: float | None = None
    backlinks: int | None = None
    fresh_probability: float | None = None


class PageFacts(Protocol):
    """Source of facts about pages and hosts that the index lacks: the frontier, and the lines that hosts repeat."""

    def facts(self, urls: Mapping[int, str], /) -> Mapping[int, Facts]:
        """Return the facts of pages, given by key and URL; unknown ones may be left out."""

    def repeated_lines(self, hosts: Iterable[str], /) -> Mapping[str, Lines]:
        """Return the lines that pages of these hosts repeat; hosts without any may be left out."""


@dataclass(frozen=True, slots=True)
class Component:
    """A part of a text score: `boost` x `idf` x BM25's share. `pages` of `of` pages have the term."""

    word: str
    field: str
    term: str
    boost: float
    idf: float
    pages: int | None
    of: int
    score: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """Parts of a result's score: components add up to `text`; (text x factors + semantics) x passages is the score."""

    text: float
    components: tuple[Component, ...]
    authority: float
    news: float
    readable: float
    semantics: float
    passages: float = 1.0


class Hit(msgspec.Struct, frozen=True):
    """One result. `alike` counts other results of nearly the same text that are not shown."""

    rank: int
    key: int
    url: str
    host: str
    title: Snippet
    snippet: Snippet
    score: float
    lang: str
    type: str
    date_s: int
    last_visit_s: float | None
    backlinks: int | None = None
    fresh_probability: float | None = None
    alike: int = 0
    explanation: Explanation | None = None

    def with_facts(self, facts: Facts) -> Hit:
        """Return the hit with these facts; a last visit that they lack stays as it was."""
        return msgspec.structs.replace(
            self,
            last_visit_s=facts.last_visit_s or self.last_visit_s,
            backlinks=facts.backlinks,
            fresh_probability=facts.fresh_probability,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the hit for JSON; `snippet` and `title_html` are safe HTML: text and `<mark>`."""
        found = {
            "rank": self.rank,
            "url": self.url,
            "host": self.host,
            "title": self.title.plain(),
            "title_html": self.title.html(),
            "snippet": self.snippet.html(),
            "score": round(self.score, 6),
            "lang": self.lang or None,
            "type": self.type or None,
            "date": _time(self.date_s),
            "last_visit": _time(self.last_visit_s),
            "backlinks": self.backlinks,
            "fresh_probability": self.fresh_probability,
            "alike": self.alike,
        }
        return found if self.explanation is None else found | {"explanation": asdict(self.explanation)}


@dataclass(frozen=True, slots=True)
class Expansion:
    """Words that the best results have in common: `words` were searched too; `offered`: expansion may help."""

    words: tuple[str, ...] = ()
    offered: bool = False


@dataclass(frozen=True, slots=True)
class Results:
    """The answer to a query.

    `total` counts all matching pages, shown or not; where shards are silent, or a text had to match exactly, there
    may be more (`is_partial`). `languages` are the likely ones of the query, the likeliest being 1. `corrected` is the
    query that was searched, if words of the typed one were misspelt.
    """

    query: str
    understood: str
    total: int
    hits: tuple[Hit, ...] = ()
    notes: tuple[Message, ...] = ()
    suggestions: tuple[Suggestion, ...] = ()
    missing: tuple[str, ...] = ()
    expansion: Expansion = field(default_factory=Expansion)
    facets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    languages: Mapping[str, float] = field(default_factory=dict)
    offset: int = 0
    is_partial: bool = False
    shards_queried: int = 0
    shards_answered: int = 0
    took_ms: float = 0.0
    corrected: str = ""

    @property
    def warnings(self) -> tuple[str, ...]:
        """The notes about this answer, in English."""
        return tuple(map(str, self.notes))

    def as_json(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "corrected": self.corrected or None,
            "understood": self.understood,
            "total": self.total,
            "is_partial": self.is_partial,
            "offset": self.offset,
            "took_ms": round(self.took_ms, 3),
            "hits": [hit.as_json() for hit in self.hits],
            "warnings": list(self.warnings),
            "suggestions": [asdict(each) for each in self.suggestions],
            "missing": list(self.missing),
            "expansion": asdict(self.expansion),
            "facets": {name: dict(counts) for name, counts in self.facets.items()},
            "languages": {language: round(share, 4) for language, share in self.languages.items()},
            "shards": {"asked": self.shards_queried, "answered": self.shards_answered},
        }


def _time(unix_s: float | None) -> str | None:
    return iso_utc(unix_s) if unix_s else None
