"""Search pages: results, and the probability that they are still current (F7, F8)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from fastapi import Query, Request

from teia.clock import iso_utc
from teia.collections.account import MIN_REVISITED
from teia.collections.control_file import CrawlReports
from teia.errors import UsageError
from teia.frontier.tables.page_changes import last_change_s
from teia.indexer.help_queries import EMPTY_COLLECTION, HelpQueries
from teia.search.query.query_language import accepted_languages
from teia.search.query.tree import MIN_PREFIX_CHARS, RESULT_WINDOW
from teia.search.query.words import folded, words_of
from teia.search.serve.searcher import SearchOptions
from teia.search.show.results import Expansion, Explanation, Results
from teia.search.show.spelling import Suggestion
from teia.views.captures import versions
from teia.views.page import next_due
from teia.web import limits
from teia.web.access.roles import Role
from teia.web.parts.collection_state import is_freshness_known
from teia.web.server.installation import Installation
from teia.web.server.json_routes import API, InstallationDep, PageRoutes, RedirectTo, VisitorDep
from teia.web.server.preferences import language_of
from teia.web.server.templates import link

PER_PAGE = 10
MAX_PER_PAGE = 100
SHOWN_PAGES = 9
"""Most numbers of pages of results that a page links to."""

MAX_COMPLETED_CHARS = 200
COMPLETING_RESULTS = 10
"""Results from which completions of a query are taken."""

MAX_WORDS, MAX_TITLES = 4, 4
MAX_VERSIONS = 10
"""Versions of a page that a result shows."""

RESERVED_DOMAINS = frozenset({"test", "example", "invalid"})
DOUBTFUL = 0.5
"""Results below this probability of being current show their next visit."""

MAX_OFFSET = 10**9
"""Largest accepted offset.

A larger one is refused with an error about the number. A smaller one that is too deep gets an error about the depth.
"""


@dataclass(frozen=True, slots=True)
class HitView:
    """One result, with the keys of `teia search --json`; `title_html` and `snippet` are text and `<mark>`.

    `opens` is the target of the title: the page itself, or our capture. `versions` are the times of the page's last
    versions, the newest first, in a search of the past. `more_here` is the number of further results on the last
    result of a host.
    """

    rank: int
    url: str
    host: str
    title: str
    title_html: str
    snippet: str
    score: float
    lang: str | None
    type: str | None
    date: str | None
    last_visit: str | None
    backlinks: int | None
    fresh_probability: float | None
    alike: int
    next_due: str | None = None
    opens: Literal["page", "capture"] = "page"
    versions: tuple[str, ...] = ()
    more_here: int = 0
    explanation: Explanation | None = None


@dataclass(frozen=True, slots=True)
class Shards:
    """Number of index shards queried, and of those that answered in time."""

    asked: int
    answered: int


Language = Literal["", "pt", "en", "es", "fr", "de", "it"]
Type = Literal["", "html", "pdf", "text", "feed", "word", "sheet", "slides"]
Dated = Literal["", "1d", "7d", "30d", "365d"]


@dataclass(frozen=True, slots=True)
class ChosenFilters:
    """Choices beside the query: filters by language, type and age, which it can also contain; no corrections.

    `as_of` is a day or a time in the past as of which it is answered.
    """

    language: str = ""
    type: str = ""
    dated: str = ""
    verbatim: bool = False
    as_of: str = ""

    def prepend_to(self, query: str) -> str:
        """Prepend the chosen filters to the query; at its end an unclosed quote could swallow them."""
        words = (("lang", self.language), ("type", self.type), ("after", self.dated))
        return " ".join([*(f"{name}:{value}" for name, value in words if value), query]).strip()

    def links(self) -> dict[str, str]:
        """Return the filters as parameters of an address."""
        chosen = {"language": self.language, "type": self.type, "dated": self.dated}
        return chosen | {"verbatim": "true" if self.verbatim else "", "as_of": self.as_of}


@dataclass(frozen=True, slots=True)
class SearchView:
    """Search results, with the keys of `teia search --json`. `next_offset` is the offset of the next page.

    A `query` of more than 2,000 characters is cut. `corrected` is the query that was searched, if words of the typed
    one were misspelt.
    """

    query: str
    corrected: str | None
    understood: str
    collection: str
    total: int
    is_partial: bool
    offset: int
    n: int
    next_offset: int | None
    took_ms: float
    hits: list[HitView]
    warnings: list[str]
    suggestions: list[Suggestion]
    missing: list[str]
    expansion: Expansion
    facets: dict[str, dict[str, int]]
    languages: dict[str, float]
    shards: Shards
    collections: list[str]
    chosen: ChosenFilters


@dataclass(frozen=True, slots=True)
class SearchAnswer(SearchView):
    """Search results as the page shows them; `refused` is the reason why there was no search."""

    is_cut: bool = False
    refused: str = ""

    @property
    def numbered_pages(self) -> list[tuple[int, int]]:
        """Numbers and offsets of the pages of results around this one; none if there is only one page."""
        pages = -(-min(self.total, RESULT_WINDOW) // self.n)
        here = self.offset // self.n
        first = max(0, min(here - SHOWN_PAGES // 2, pages - SHOWN_PAGES))
        shown = range(first, min(pages, first + SHOWN_PAGES)) if pages > 1 else ()
        return [(number + 1, number * self.n) for number in shown]

    @property
    def present(self) -> ChosenFilters:
        """The same filters for a search of the present."""
        return replace(self.chosen, as_of="")

    @property
    def verbatim_address(self) -> str:
        """Address of the results for the query as it was typed."""
        return link("/search", q=self.query, c=self.collection, **replace(self.chosen, verbatim=True).links())

    @property
    def short_address(self) -> str:
        """Address of a page whose query is too long to repeat in its links; empty otherwise."""
        return link("/search", q=self.query, c=self.collection, **self.chosen.links()) if self.is_cut else ""


@dataclass(frozen=True, slots=True)
class HomeView:
    """Searchable pages and collections, and example queries that find something.

    `newest` is the last time a new or changed page was seen, `fresh` the probability that a capture is current.
    """

    collections: list[str]
    pages: int
    examples: list[str]
    newest: str | None = None
    fresh: float | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """A query that a typed beginning may become: by a `word` of pages, or by the `title` of one."""

    text: str
    kind: Literal["word", "title"]


@dataclass(frozen=True, slots=True)
class CompletionView:
    """Completions of a typed text, the most frequent words first, then titles."""

    query: str
    completions: list[Completion]


def add_routes(pages: PageRoutes) -> None:
    pages.page("/", "home.html", Role.PUBLIC)(home)
    pages.page("/search", "search.html", Role.PUBLIC)(search)
    pages.page("/help/query", "help_query.html", Role.PUBLIC)(help_query)
    pages.json("/complete", Role.PUBLIC)(complete)


def home(request: Request, installation: InstallationDep) -> HomeView:
    """Return the front page; a query redirects to its results."""
    query = request.query_params.get("q", "")
    if query.strip() and not request.url.path.startswith(API):
        raise RedirectTo(link("/search", q=query))
    names = installation.searchable()
    opened = installation.search(None) if names else None
    if opened is None:
        return HomeView(names, 0, [])
    newest_s = max((at_s for name in names if (at_s := _newest_s(installation, name)) is not None), default=None)
    newest = None if newest_s is None else iso_utc(newest_s)
    return HomeView(names, opened.pages, installation.examples(opened), newest, _mean_freshness(installation, names))


def _newest_s(installation: Installation, name: str) -> float | None:
    """Return the last time a collection saw a new or changed page."""
    with installation.lookup(name) as lookup:
        return max((at_s for cell in lookup.cells if (at_s := last_change_s(cell)) is not None), default=None)


def _mean_freshness(installation: Installation, names: list[str]) -> float | None:
    """Return the mean probability that a capture is current, over all collections; None if it is unknown."""
    known = []
    with CrawlReports(installation.root.control) as reports:
        for name in names:
            run = reports.running_crawl(name)
            account = {} if run is None else run.account
            if is_freshness_known(account):
                known.append((account["freshness"]["fresh"], max(1, account["pages"])))
            elif (
                found := installation.cache.last(("freshness", name))
            ) is not None and found.value.visited_again >= MIN_REVISITED:
                known.append((found.value.fresh, max(1, found.value.pages)))
    whole = sum(pages for _, pages in known)
    return sum(fresh * pages for fresh, pages in known) / whole if whole else None


def help_query(
    request: Request, installation: InstallationDep, visitor: VisitorDep, lang: Literal["", "en", "pt"] = ""
) -> HelpQueries:
    """Return help on queries, with examples that find pages in a language, if there are any.

    The page has those of its reader. JSON is the same for all readers: English, unless `lang` is `pt`.
    """
    if not installation.searchable():
        return EMPTY_COLLECTION
    own = "en" if request.url.path.startswith(API) else language_of(request, visitor).tag
    return installation.help_queries(lang or own.partition("-")[0])


def search(
    request: Request,
    installation: InstallationDep,
    q: str = "",
    c: str = "",
    n: Annotated[int, Query(ge=1, le=MAX_PER_PAGE)] = PER_PAGE,
    offset: Annotated[int, Query(ge=0, le=MAX_OFFSET)] = 0,
    explain: bool = False,
    facets: bool = True,
    lang: Annotated[str, Query(max_length=20)] = "",
    expand: bool | None = None,
    language: Language = "",
    type: Type = "",  # noqa: A002  # the name of a field of the form
    dated: Dated = "",
    verbatim: bool = False,
    as_of: Annotated[str, Query(max_length=40)] = "",
) -> SearchView:
    """Search the pages of one collection, or of all; with `verbatim`, without correcting misspelt words.

    `as_of` is a day or a time in the past: every page is searched in the version that was current then.
    """
    reader_languages = accepted_languages(request.headers.get("accept-language", ""))
    options = SearchOptions(
        explain=explain,
        facets=facets,
        language=lang or None,
        expand=expand,
        reader_languages=reader_languages,
        correct=not verbatim,
    )
    chosen = ChosenFilters(language, type, dated, verbatim, as_of.strip())
    if chosen.as_of:
        try:
            c, moment_s = installation.past(c, chosen.as_of)
        except UsageError as error:
            # The page keeps what the user chose; a program gets the error.
            if request.url.path.startswith(API):
                raise
            return _refused(installation, error.message, q, c, n, chosen)
        with installation.past_slots.hold():
            found = installation.past_searches.search(c, moment_s, chosen.prepend_to(q), n, offset, options)
    else:
        found = installation.search(c or None).search(chosen.prepend_to(q), n, offset, options)
    names, answer, end = installation.searchable(), found.as_json(), found.offset + len(found.hits)
    # The whole query was searched for; only the links of the page repeat a part of it.
    shown = _shorten(q)
    own = {
        "query": shown,
        # The filters that are chosen beside the query were searched with it, but are no part of it.
        "corrected": found.corrected.removeprefix(chosen.prepend_to("")).strip() or None,
        "is_cut": shown != q,
        "chosen": chosen,
        "collection": c,
        "collections": names,
        "n": n,
        "next_offset": end if found.hits and end < found.total else None,
        "hits": _hit_views(installation, c, names, found, answer, is_past=bool(chosen.as_of)),
        # Records, where the JSON of a terminal has dictionaries; the page translates the warnings.
        "warnings": list(found.notes),
        "suggestions": list(found.suggestions),
        "expansion": found.expansion,
        "shards": Shards(found.shards_queried, found.shards_answered),
    }
    return SearchAnswer(**answer | own)


def _refused(installation: Installation, why: str, q: str, c: str, n: int, chosen: ChosenFilters) -> SearchAnswer:
    """Return the answer to a search that was not made, with the choices of the form."""
    return SearchAnswer(
        query=_shorten(q), corrected=None, understood="", collection=c, total=0, is_partial=False, offset=0, n=n,
        next_offset=None, took_ms=0.0, hits=[], warnings=[], suggestions=[], missing=[], expansion=Expansion(),
        facets={}, languages={}, shards=Shards(0, 0), collections=installation.searchable(), chosen=chosen, refused=why,
    )  # fmt: skip


def _hit_views(
    installation: Installation, c: str, names: list[str], found: Results, answer: dict[str, Any], *, is_past: bool
) -> list[HitView]:
    """Return the results of a search with everything that the page shows of them."""
    hits = [
        HitView(**values | {"explanation": hit.explanation})
        for hit, values in zip(found.hits, answer["hits"], strict=True)
    ]
    hits = _with_more_here(hits, answer["facets"].get("host", {}))
    if is_past:
        hits = _with_versions(installation, c, hits)
    else:
        hits = _with_next_visits(installation, [c] if c else names, hits)
    return _with_targets(installation, c or (names[0] if len(names) == 1 else ""), hits)


def complete(
    installation: InstallationDep, q: Annotated[str, Query(max_length=MAX_COMPLETED_CHARS)] = "", c: str = ""
) -> CompletionView:
    """Complete a query while it is typed: by words of pages that it finds, and by their titles."""
    typed = q.strip()
    *_, last = words_of(typed) or ("",)
    # A text that ends in a sign, or in the value of a filter, is not completed.
    if len(last) < MIN_PREFIX_CHARS or not typed.lower().endswith(last) or ":" in typed.split()[-1]:
        return CompletionView(q, [])
    found = installation.search(c or None).search(f"{typed}*", COMPLETING_RESULTS, 0, SearchOptions(correct=False))
    forms: Counter[str] = Counter(
        part.lower() for hit in found.hits for part, marked in (*hit.title.parts, *hit.snippet.parts) if marked
    )
    words = [form for form, _ in forms.most_common() if folded(form).startswith(folded(last)) and form != last]
    titles = dict.fromkeys(hit.title.plain() for hit in found.hits if folded(last) in folded(hit.title.plain()))
    start = typed[: len(typed) - len(last)]
    shown = [Completion(start + word, "word") for word in words[:MAX_WORDS]]
    return CompletionView(q, [*shown, *(Completion(title, "title") for title in list(titles)[:MAX_TITLES])])


def _shorten(query: str) -> str:
    """Return the part of a query that a page repeats: whole words from its beginning."""
    if len(query) <= limits.QUERY_CHARS:
        return query
    cut = query[: limits.QUERY_CHARS]
    return cut.rpartition(" ")[0] or cut


def _with_next_visits(installation: Installation, names: list[str], hits: list[HitView]) -> list[HitView]:
    """Add the next visit to results that are probably not current."""
    doubtful = [hit.url for hit in hits if hit.fresh_probability is not None and hit.fresh_probability < DOUBTFUL]
    due: dict[str, str | None] = {}
    for name in names if doubtful else ():
        with installation.lookup(name) as lookup:
            for url in doubtful:
                entry = lookup.find(url)
                due[url] = due.get(url) or (next_due(entry) if entry is not None else None)
    return [replace(hit, next_due=due[hit.url]) if due.get(hit.url) else hit for hit in hits]


def _with_targets(installation: Installation, name: str, hits: list[HitView]) -> list[HitView]:
    """Add the target of the title to results of a collection, or of several."""
    if name in installation.closed:
        return hits
    is_archive = bool(name) and installation.config(name).public.titles_open == "capture"
    # A version of the past is in the archive alone.
    return [
        replace(hit, opens="capture") if is_archive or hit.versions or _is_made_up(hit.host) else hit for hit in hits
    ]


def _is_made_up(host: str) -> bool:
    """Tell whether a host cannot be reached by its name: top-level domains for tests and examples (RFC 2606)."""
    return host.rpartition(".")[2] in RESERVED_DOMAINS


def _with_more_here(hits: list[HitView], pages_by_host: Mapping[str, int]) -> list[HitView]:
    """Add the number of further results of its host to the last result of each host, if there are other hosts."""
    shown = Counter(hit.host for hit in hits)
    last = {hit.host: hit.rank for hit in hits}
    if len(pages_by_host) < 2:
        return hits
    return [
        replace(hit, more_here=max(0, pages_by_host.get(hit.host, 0) - shown[hit.host]))
        if last[hit.host] == hit.rank
        else hit
        for hit in hits
    ]


def _with_versions(installation: Installation, name: str, hits: list[HitView]) -> list[HitView]:
    """Add the times of the last versions of each page."""
    with installation.lookup(name) as lookup:
        entries = {hit.url: lookup.find(hit.url) for hit in hits}
        times = {
            url: tuple(iso_utc(visit.time_s) for visit in reversed(versions(lookup.visits(entry))))[:MAX_VERSIONS]
            for url, entry in entries.items()
            if entry is not None
        }
    return [replace(hit, versions=times.get(hit.url, ())) for hit in hits]
