"""One query on its way from a tree to results; `Searcher` (searcher.py) lists the steps.

A `QueryExecution` lasts as long as its query. It sends all requests to shards through one `QueryFanOut`, so that there
is one deadline, and a shard that fails is left out from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from teia.clock import Clock
from teia.errors import IndexFailure
from teia.index.entry import IndexEntry
from teia.index.repeated import Lines
from teia.lib.message import Message
from teia.search.query import tree
from teia.search.query.query_language import Shares, content_words, likely_languages, question_languages
from teia.search.query.question_words import is_question_word
from teia.search.query.rewrite import drop_weak_words
from teia.search.query.tree import RESULT_WINDOW, Phrase, Prefix, Query, wanted_words
from teia.search.rank import expansion
from teia.search.rank.expansion import Feedback, Related
from teia.search.rank.formula import RERANKED, Candidates, Ranking, merge_candidates
from teia.search.rank.make_plan import Planner, counted_term, needed_counts
from teia.search.rank.near_duplicates import leaders_of
from teia.search.rank.passages import LOOKED_AT, Passages
from teia.search.rank.plan import Plan
from teia.search.rank.rows import Rows
from teia.search.rank.semantic import Model
from teia.search.rank.statistics import CountsDemand, Statistics, TermCounts
from teia.search.serve.gateway import Gateway, StartedRequests, keys_by_shard
from teia.search.serve.shards import Show
from teia.search.serve.wire_format import unpack_received
from teia.search.show.content import shown_title
from teia.search.show.results import Facts, Hit, PageFacts
from teia.search.show.snippets import Highlighter

DEADLINE_S = 1.0
MAX_PREFETCHED = 30
"""Results down to this one are sent by remote shards before they are requested."""

RELATED_WORTH = 0.1
"""Weight of a related word in the choice of a snippet: it is marked, but the typed words decide."""


@dataclass(frozen=True, slots=True)
class SearchComponents:
    """The components that searches use."""

    gateway: Gateway
    statistics: Statistics
    clock: Clock
    ranking: Ranking
    facts: PageFacts | None = None
    model: Callable[[], Model | None] = lambda: None
    deadline_s: float = DEADLINE_S


class RankedPages:
    """Results in their order, as far as they were searched. `leaders` names the representative of each row."""

    def __init__(self, total: int, rows: Rows, leaders: Sequence[int]) -> None:
        self.total = total
        self.rows = rows
        self.leaders = leaders
        self.representatives: list[int] = []
        """The rows that represent themselves."""

        self._duplicates: dict[int, list[int]] = {}
        for row_number, leader in enumerate(leaders):
            (self.representatives if row_number == leader else self._duplicates.setdefault(leader, [])).append(
                row_number
            )

    def duplicates(self, row_number: int) -> Sequence[int]:
        """Return the other rows that a row represents."""
        return self._duplicates.get(row_number, ())


class QueryExecution:
    """One query."""

    def __init__(
        self,
        components: SearchComponents,
        query: Query,
        *,
        language: str | None = None,
        reader_languages: Sequence[str] = (),
        grouped: bool = True,
    ) -> None:
        self.components = components
        self.query = query
        # The deadline begins here: all requests of this query share it.
        self.fan_out = components.gateway.start_query(components.deadline_s)
        self.messages: list[Message] = []
        self.related: tuple[Related, ...] = ()
        self.is_truncated = False
        self._grouped = grouped
        self._prefetched: dict[int, bytes] = {}
        self._unpacked: dict[int, IndexEntry] = {}
        """Pages that shards sent along with their best, by key; and those of them that were needed."""

        self._now_s = components.clock.now_s()
        self.counts, self.languages = self._count_terms(language, reader_languages)
        self._planner = Planner(self.counts, components.ranking.weights.fields)
        self.query = drop_weak_words(query, self._planner.worth)

    def _count_terms(self, language: str | None, reader_languages: Sequence[str]) -> tuple[TermCounts, Shares]:
        """Return the frequencies of the terms, and the likely languages."""
        has_language_filter = bool(self.query.filters.lang.any_of)
        words = () if has_language_filter or language else content_words(self.query)
        demand = needed_counts(self.query)
        counts = self.count(CountsDemand(demand.terms, demand.prefixes, words))
        if has_language_filter:
            return counts, {}
        if language:
            return counts, {language: 1.0}
        return counts, likely_languages(words, counts.words, question_languages(self.query), reader_languages)

    def count(self, demand: CountsDemand) -> TermCounts:
        """Count over all shards; cached counts are not requested again."""
        counts = self.components.statistics.counts(demand, self._request_counts)
        if self.fan_out.has_failed:
            self.components.statistics.clear()  # counts without a shard must not serve the next query
        return counts

    def _request_counts(self, missing: CountsDemand) -> list[TermCounts]:
        return list(self.fan_out.query_all(lambda shard: shard.counts(missing)).values())

    def plan(self) -> Plan:
        words = sum(map(tree.times_of, self.query.clauses.should))
        terms = expansion.make_terms(self.related, words, self.counts)
        return self._planner.plan(self.query, self._now_s, terms)

    # -- expansion -----------------------------------------------------------------------------------------

    def expand(self, unwanted: frozenset[str]) -> None:
        """Add the words that the best results have in common."""
        best = self._request_candidates(self.plan(), expansion.PAGES, self._show(range(expansion.PAGES)))
        # 1. The best pages of the query as typed. 2. Their common terms. 3. The frequencies of these terms.
        first = self._merge_candidates(best, expansion.PAGES)
        rows = self.rank(first.rows)[: expansion.PAGES]
        entries = self.entries(rows)
        shares = expansion.normalise_scores({int(row["key"]): float(row["score"]) for row in rows})
        feedback = Feedback(wanted_words(self.query))
        for key, entry in entries.items():
            feedback.add_page(f"{entry.title}\n{entry.text}", shares[key])
        counts = self.count(CountsDemand(tuple(("all", stem) for stem in feedback.candidate_stems())))
        self.counts.terms.update(counts.terms)
        self.related = feedback.related(self.counts, unwanted)

    # -- finding -------------------------------------------------------------------------------------------

    def start_candidates(self, plan: Plan, wanted: range) -> StartedRequests[Candidates]:
        """Request the best pages by text, for the wanted results, without waiting."""
        # Exact texts drop results, so the pages to send along are not known before `_filter_exact`.
        is_shown = wanted.stop <= MAX_PREFETCHED and not self.query.exact
        # The pages of the first results are needed to order them, whichever are shown.
        is_first = wanted.start < LOOKED_AT
        needed = range(max(wanted.stop, LOOKED_AT)) if is_first else wanted
        show = self._show(needed, is_grouped=self._grouped and not is_first) if is_shown else None
        return self._request_candidates(plan, self._depths(wanted.stop)[0], show)

    def _depths(self, needed: int) -> tuple[int, ...]:
        """Return the number of pages to request from each shard at first, and then if they are too few."""
        return (RESULT_WINDOW,) if self.query.exact or needed > RERANKED // 2 else (RERANKED, RESULT_WINDOW)

    def find(self, plan: Plan, needed: int, best: StartedRequests[Candidates] | None = None) -> RankedPages:
        """Return results down to the needed one, or to the end of the window; `best` is a request already started."""
        is_exact = bool(self.query.exact)
        started: StartedRequests[Candidates] | None = best or self.start_candidates(plan, range(needed))
        # A second round, deeper, only where near duplicates left too few results.
        for depth in self._depths(needed):
            candidates = self._merge_candidates(started or self._request_candidates(plan, depth), depth)
            started = None
            if plan.scored is not None:
                rows = self._look_again(self.rank(candidates.rows))
            else:
                rows = self._list_by_date(candidates.rows)
            total = candidates.total
            if is_exact:
                rows, total = self._filter_exact(rows, total, needed)
            leaders = leaders_of(rows) if self._grouped else list(range(len(rows)))
            found = RankedPages(total, rows, leaders)
            # Enough results, or there are no more pages to request.
            if len(found.representatives) >= needed or candidates.total <= depth:
                break
        return found

    def _show(self, wanted: range, *, is_grouped: bool = False) -> Show:
        """Return the data that shards need to send pages along."""
        return Show(wanted.start, wanted.stop, dict(self.languages), self._now_s, is_grouped)

    def _request_candidates(self, plan: Plan, limit: int, show: Show | None = None) -> StartedRequests[Candidates]:
        return self.fan_out.start_all(lambda shard: shard.candidates(plan, limit, show))

    def _merge_candidates(self, best: StartedRequests[Candidates], limit: int) -> Candidates:
        """Return the best pages by text of all shards together."""
        answers = best.collect()
        for number, answer in answers.items():
            # The number is the gateway's own; a shard does not know it.
            answer.rows["shard"] = number
            self._prefetched.update(answer.pages)
        everything = merge_candidates(list(answers.values()))
        return Candidates(everything.total, everything.rows[:limit])

    def rank(self, rows: Rows) -> Rows:
        model, ranking = self.components.model(), self.components.ranking
        meaning = model.meaning(wanted_words(self.query), ranking.weights) if model is not None else None
        return ranking.rank(rows, self.languages, self._now_s, meaning)

    def _look_again(self, rows: Rows) -> Rows:
        """Return ranked rows with the first of them in a new order, by the passages of their pages (passages.py)."""
        # Exact texts drop results, so the first ones are not known yet.
        passages = None if self.query.exact else Passages(self.query, self.components.ranking.weights.passages)
        if not passages or len(rows) < 2:
            return rows
        first = rows[: passages.looked_at]
        self._unpacked.update(self.entries(first))
        known = [self._unpacked.get(key) for key in first["key"].tolist()]
        factors = np.array([1.0 if entry is None else passages.factor(entry) for entry in known])
        first["passages"] = factors
        first["score"] *= factors
        first[:] = first[np.lexsort((first["key"], -first["score"]))]
        # Scores never rise from one result to the next.
        others = rows[len(first) :]
        np.minimum(others["score"], first["score"][-1], out=others["score"])
        return rows

    def _list_by_date(self, rows: Rows) -> Rows:
        """Return pages of a query without words, the newest first and unscored."""
        # In a search by date, tantivy returns the date as the score.
        rows["text"] = 0.0
        return self.components.ranking.keep_order(rows)

    def _filter_exact(self, rows: Rows, total: int, needed: int) -> tuple[Rows, int]:
        """Return those of the first rows that contain the exact texts."""
        texts, show = self.query.exact, self._show(range(needed)) if needed <= MAX_PREFETCHED else None
        answers = self.fan_out.start_keys(
            keys_by_shard(rows), lambda shard, keys: shard.filter_exact(keys, texts, show)
        ).collect()
        kept = {key for answer in answers.values() for key in answer.keys}
        for answer in answers.values():
            self._prefetched.update(answer.pages)
        # Spelling is checked in the first results only; the total of the others stays unknown.
        if total > len(rows):
            self.is_truncated = True
            self.messages.append(
                Message(
                    "Exact spelling was checked in the first {checked:,} of {found:,} results",
                    checked=len(rows),
                    found=total,
                )
            )
        chosen = rows[np.array([key in kept for key in rows["key"].tolist()], bool)]
        return chosen, len(chosen)

    # -- showing -------------------------------------------------------------------------------------------

    def entries(self, rows: Rows) -> dict[int, IndexEntry]:
        """Return the pages of rows, by key, in the order of the rows, without those deleted meanwhile."""
        return self._in_order(rows, self.start_entries(rows))

    def start_entries(self, rows: Rows) -> StartedRequests[Mapping[int, IndexEntry]]:
        """Request the pages of rows that were not sent along, without waiting."""
        for key in rows["key"].tolist():
            if key in self._prefetched:
                with suppress(IndexFailure):  # a damaged page is requested again
                    self._unpacked[key] = unpack_received(self._prefetched.pop(key))
        missing = rows[[key not in self._unpacked for key in rows["key"].tolist()]] if self._unpacked else rows
        return self.fan_out.start_keys(keys_by_shard(missing), lambda shard, keys: shard.entries(keys))

    def _in_order(self, rows: Rows, pages: StartedRequests[Mapping[int, IndexEntry]]) -> dict[int, IndexEntry]:
        found = dict(self._unpacked)
        for answer in pages.collect().values():
            found.update(answer)
        return {key: found[key] for key in rows["key"].tolist() if key in found}

    def hits(
        self,
        rows: Rows,
        alike: Sequence[int],
        first_rank: int,
        pages: StartedRequests[Mapping[int, IndexEntry]] | None = None,
    ) -> list[Hit]:
        """Return rows as hits to show; `pages` are their pages, if already requested."""
        entries = self._in_order(rows, pages or self.start_entries(rows))
        source = self.components.facts
        facts = source.facts({key: entry.url for key, entry in entries.items()}) if source else {}
        repeated = source.repeated_lines({entry.host for entry in entries.values()}) if source else {}
        highlighter = self.highlighter()
        shown = zip(rows["key"].tolist(), rows["score"].tolist(), alike, strict=True)
        return [
            make_hit(
                rank, score, entries[key], others, highlighter, repeated.get(entries[key].host, _NO_LINES)
            ).with_facts(facts.get(key, _NO_FACTS))
            for rank, (key, score, others) in enumerate(shown, start=first_rank)
            if key in entries
        ]

    def highlighter(self) -> Highlighter:
        """Return the highlighter of this query's words."""
        wanted = wanted_words(self.query)
        # "how" is on every page; marking it would hide the words that matter.
        words = [word for word in wanted if not is_question_word(word)] or list(wanted)
        leaves = list(tree.leaves(self.query.clauses))
        completions = [
            word for leaf in leaves if isinstance(leaf, Prefix) for word in self.counts.completions(leaf.text)
        ]
        phrases = [leaf.words for leaf in leaves if isinstance(leaf, Phrase)]
        phrases += [each.phrase.words for each in self.query.exact if each.phrase is not None and not each.excluded]
        worth = {each.word: RELATED_WORTH for each in self.related}
        worth |= {word: self.counts.idf(*counted_term(word, self.counts)) for word in (*words, *completions)}
        return Highlighter(worth, phrases)


_NO_FACTS = Facts()
_NO_LINES: Lines = frozenset()


def make_hit(
    rank: int, score: float, entry: IndexEntry, alike: int, highlighter: Highlighter, repeated: Lines = _NO_LINES
) -> Hit:
    """Return a page as a hit; `repeated` are lines that other pages of its host have too."""
    return Hit(
        rank=rank,
        key=entry.key,
        url=entry.url,
        host=entry.host,
        title=highlighter.whole(shown_title(entry, repeated)),
        snippet=highlighter.snippet(entry, repeated),
        score=score,
        lang=entry.language,
        type=entry.media_type,
        date_s=entry.date_s,
        last_visit_s=entry.visited_s,
        alike=alike,
    )
