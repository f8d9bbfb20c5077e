"""Search: a user's text goes in, results come out (begin here).

    parse   any typed text becomes a tree                               parser
    count   all shards report the frequency of its terms                statistics, query_language
    plan    the tree becomes weighted terms of fields                   rewrite, make_plan, expansion
    gather  the best of each shard by text, merged                      shards, tantivy_query, gateway
    rank    authority, news, language, semantics                        formula, semantic
    group   pages with nearly the same text are one result              near_duplicates
    show    titles, snippets and facts of the requested few             snippets, explain, facets, suggestions

No typed text raises. A query has a second; shards that have not answered by then are left out and named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from teia.clock import Clock
from teia.index.entry import IndexEntry
from teia.lib.closing import Closing
from teia.lib.message import Message
from teia.search.query.canonical_text import render
from teia.search.query.describe import describe
from teia.search.query.parser import parse
from teia.search.query.rewrite import correct_words
from teia.search.query.tree import RESULT_WINDOW, Query
from teia.search.query.words import replace_words
from teia.search.rank.expansion import is_worth_offering
from teia.search.rank.formula import Ranking
from teia.search.rank.plan import AnyOf
from teia.search.rank.rows import Rows
from teia.search.rank.semantic import Model
from teia.search.rank.similar import Subject
from teia.search.rank.statistics import Statistics
from teia.search.serve.gateway import Gateway, QueryFanOut, Shards
from teia.search.serve.query_execution import DEADLINE_S, QueryExecution, RankedPages, SearchComponents
from teia.search.serve.results_cache import ResultsCache
from teia.search.show.correct_query import FEW_RESULTS, Spellings, Suggestions
from teia.search.show.explain import explain_rows
from teia.search.show.facets import collect_facets, start_facets
from teia.search.show.results import Expansion, Facts, Hit, PageFacts, Results
from teia.urls import from_user, key_of

MAX_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """Options of a search.

    `language` is the one the reader wants. Without it the query's words decide, and where they do not, the
    languages the reader is known to read, the best first (search/query/query_language.py). `expand` overrides the
    query's own setting, and `unwanted` are related words that the reader removed. `alike_to` is the URL of a result
    whose group is shown. With `correct`, words that are certainly misspelt are searched as they were probably meant.
    """

    explain: bool = False
    facets: bool = False
    language: str | None = None
    expand: bool | None = None
    unwanted: frozenset[str] = frozenset()
    grouped: bool = True
    alike_to: str | None = None
    reader_languages: tuple[str, ...] = ()
    correct: bool = True


class Searcher(Closing):
    """A search over shards as if they were one; threads may share it."""

    def __init__(
        self,
        shards: Shards,
        clock: Clock,
        *,
        ranking: Ranking | None = None,
        facts: PageFacts | None = None,
        model: Callable[[], Model | None] = lambda: None,
        deadline_s: float = DEADLINE_S,
        answers: ResultsCache | None = None,
    ) -> None:
        self._components = SearchComponents(
            Gateway(shards, clock), Statistics(clock), clock, ranking or Ranking(), facts, model, deadline_s
        )
        self._answers = answers

    def search(self, text: str, n: int = 10, offset: int = 0, options: SearchOptions | None = None) -> Results:
        """Answer a typed text with at most `n` results from number `offset` + 1 on."""
        options = options or SearchOptions()
        if self._answers is None:
            return self._search(text, n, offset, options)
        question = (text, n, offset, options)
        return self._answers.answer(question, lambda: self._search(*question), self._with_present_facts)

    def _with_present_facts(self, results: Results) -> Results:
        """Return results with the facts of their pages as they are now."""
        if self._components.facts is None:
            return results
        facts = self._components.facts.facts({hit.key: hit.url for hit in results.hits})
        return replace(results, hits=tuple(hit.with_facts(facts.get(hit.key, Facts())) for hit in results.hits))

    def _search(self, text: str, n: int, offset: int, options: SearchOptions) -> Results:
        began = self._components.clock.ticks_s()
        query = parse(text)
        # 1. Nothing to search for: no request is sent, the notes say why.
        if not query.is_answerable:
            return Results(query=text, understood=describe(query), total=0, notes=query.notes)
        # 2. Count the terms, decide the language, drop question words; expand on request.
        execution = QueryExecution(
            self._components,
            query,
            language=options.language,
            reader_languages=options.reader_languages,
            grouped=options.grouped,
        )
        if _expands(execution.query, options):
            execution.expand(options.unwanted)
        plan = execution.plan()
        first, last = _range(n, offset, execution.messages)
        # 3. Requests that do not depend on each other start together (gateway.py).
        best = execution.start_candidates(plan, range(first, last))
        facets = start_facets(execution.fan_out, plan) if options.facets else None
        spellings = Spellings(execution.fan_out, execution.query, execution.counts)
        # 4. Gather, rank and group.
        found = execution.find(plan, last, best)
        rows, alike = _shown(found, range(first, last), options)
        # 5. The pages to show, and spellings of rare words if little was found.
        pages = execution.start_entries(rows)
        spellings.check_rare_words(found.total)
        hits = execution.hits(rows, alike, first + 1, pages)
        # 6. Explanations, suggestions and facets are read last: results do not wait for them.
        if options.explain:
            reasons = explain_rows(execution.fan_out, plan, rows, execution.counts)
            hits = [msgspec.structs.replace(hit, explanation=reasons.get(hit.key)) for hit in hits]
        offered = spellings.collect()
        facet_counts = {} if facets is None else collect_facets(facets)
        results = replace(_answer(text, execution, found, hits, offered), offset=first, facets=facet_counts)
        if options.correct and offered.corrections:
            results = self._search_corrected(results, offered, n, options)
        return replace(results, took_ms=1000 * (self._components.clock.ticks_s() - began))

    def _search_corrected(self, results: Results, offered: Suggestions, n: int, options: SearchOptions) -> Results:
        """Return the results of the corrected query, if it has any; `corrected` says so."""
        corrected = _correct(results.query, offered.corrections)
        if corrected == results.query:
            return results
        found = self._search(corrected, n, results.offset, replace(options, correct=False))
        if not found.total:
            return results
        return replace(
            found, query=results.query, corrected=corrected, suggestions=results.suggestions, missing=results.missing
        )

    def search_among(self, text: str, keys: Sequence[int]) -> list[Hit] | None:
        """Return those of some pages that a search finds, not grouped, at most the window of results.

        Returns None if a shard did not answer: then the result is unknown.
        """
        query = parse(text)
        if not query.is_answerable or not keys:
            return []
        execution = QueryExecution(self._components, query, grouped=False)
        plan = execution.plan()
        some = msgspec.structs.replace(plan, conditions=(*plan.conditions, AnyOf("key", tuple(keys))))
        found = execution.find(some, len(keys))
        hits = execution.hits(found.rows, [0] * len(found.rows), 1)
        return None if execution.fan_out.omitted else hits

    def indexed_page(self, url: str) -> IndexEntry | None:
        """Return a page as the index holds it, with its text; None if it is not there."""
        return _entry(self._components.gateway.start_query(self._components.deadline_s), _key(url))

    def similar(self, url: str, n: int = 10) -> Results:
        """Return pages on the subject of a page of the index, without those of nearly the same text."""
        began = self._components.clock.ticks_s()
        execution = QueryExecution(self._components, Query())
        key = _key(url)
        entry = _entry(execution.fan_out, key)
        if entry is None:
            return Results(
                query=url, understood="", total=0, notes=(Message("{url} is not in the index", url=url[:200]),)
            )
        subject = Subject(entry)
        execution.counts = execution.count(subject.needed_counts())
        plan = subject.plan(execution.counts)
        if plan is None:
            return Results(query=url, understood="", total=0)
        # One more, for the page itself is its own best match.
        found = execution.find(plan, n + 1)
        same = {key} | {int(found.rows[other]["key"]) for other in _group_of(found, key)}
        representatives = [
            row_number for row_number in found.representatives if int(found.rows[row_number]["key"]) not in same
        ][: max(0, n)]
        hits = execution.hits(
            found.rows[np.array(representatives, np.intp)],
            [len(found.duplicates(row_number)) for row_number in representatives],
            1,
        )
        results = _answer(url, execution, found, hits, Suggestions())
        return replace(results, total=len(hits), took_ms=1000 * (self._components.clock.ticks_s() - began))

    def close(self) -> None:
        self._components.gateway.close()


def _key(url: str) -> int:
    """Return the key of a URL as a user writes it."""
    return key_of(from_user(url) or url)


def _entry(fan_out: QueryFanOut, key: int) -> IndexEntry | None:
    answers = fan_out.query_all(lambda shard: shard.entries([key])).values()
    return next((answer[key] for answer in answers if key in answer), None)


def _expands(query: Query, options: SearchOptions) -> bool:
    wanted = query.expand if options.expand is None else options.expand
    return bool(wanted) and query.is_plain


def _shown(found: RankedPages, wanted: range, options: SearchOptions) -> tuple[Rows, list[int]]:
    """Return the rows that are shown, and the number of others each of them represents."""
    representatives: Sequence[int] = found.representatives
    if options.alike_to is not None:
        key = _key(options.alike_to)
        leader = next((row_number for row_number in representatives if int(found.rows[row_number]["key"]) == key), None)
        representatives = [] if leader is None else [leader, *found.duplicates(leader)]
    shown = representatives[wanted.start : wanted.stop]
    alike = [0 if options.alike_to else len(found.duplicates(row_number)) for row_number in shown]
    return found.rows[np.array(shown, np.intp)], alike


def _range(n: int, offset: int, messages: list[Message]) -> tuple[int, int]:
    """Return the range of results to show: first, and one behind the last."""
    if n > MAX_AT_ONCE:
        messages.append(Message("At most {most} results are shown at once", most=MAX_AT_ONCE))
    first = max(0, offset)
    last = first + max(0, min(n, MAX_AT_ONCE))
    if last > RESULT_WINDOW:
        messages.append(Message("Results are shown down to the 1,000th; add a word or a filter to see others"))
    return min(first, RESULT_WINDOW), min(last, RESULT_WINDOW)


def _group_of(found: RankedPages, key: int) -> list[int]:
    """Return the rows with nearly the same text as the page with a key."""
    row_number = next((row_number for row_number, row in enumerate(found.rows) if int(row["key"]) == key), None)
    if row_number is None:
        return []
    leader = found.leaders[row_number]
    return [leader, *found.duplicates(leader)]


def _correct(text: str, corrections: Mapping[str, str]) -> str:
    """Return a query with its plain words corrected, as it was typed where that is possible."""
    meant, corrected = correct_words(parse(text), corrections), replace_words(text, corrections)
    # The same word may stand in a filter, too, in quotes or behind a sign, where it is meant as it is written.
    return corrected if parse(corrected) == meant else render(meant)


def _answer(
    text: str, execution: QueryExecution, found: RankedPages, hits: Sequence[Hit], offered: Suggestions
) -> Results:
    fan_out, query = execution.fan_out, execution.query
    messages = list(execution.messages)
    omitted = fan_out.omitted
    if omitted:
        names = "; ".join(f"{name}: {why}" for name, why in omitted.items())
        messages.append(
            Message(
                "{answered} of {cells} cells responded. Missing: {missing}",
                answered=fan_out.answered_cells,
                cells=fan_out.cells,
                missing=names,
            )
        )
    elif not execution.counts.pages:
        messages.append(Message("There are no pages in the index yet"))
    # Only the first page of results shows whether the list is flat.
    scores = [hit.score for hit in hits] if hits and hits[0].rank == 1 else []
    is_offered = query.is_plain and not execution.related and is_worth_offering(found.total, scores)
    return Results(
        query=text,
        understood=describe(query),
        total=found.total,
        hits=tuple(hits),
        notes=(*query.notes, *messages),
        suggestions=offered.spellings if found.total < FEW_RESULTS or offered.missing else (),
        missing=offered.missing,
        expansion=Expansion(tuple(each.word for each in execution.related), is_offered),
        languages=execution.languages,
        is_partial=bool(omitted) or execution.is_truncated,
        shards_queried=fan_out.cells,
        shards_answered=fan_out.answered_cells,
    )
