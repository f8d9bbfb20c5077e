"""Compilation of a plan into a tantivy query, for one view of one shard's index.

tantivy scores a term with the idf of its own index and field. That cannot be changed, but a boost can undo it: a
term is boosted by the plan's weight over the idf that tantivy will use. The only remaining statistic of a shard's
own is the mean length of its fields.
"""

from __future__ import annotations

from math import log

import tantivy
from tantivy import FieldType, Occur
from tantivy import Query as IndexQuery

from teia.index.schema import ROOT
from teia.search.rank.plan import AnyOf, Condition, Dated, Group, InTitle, Leaf, Part, Plan, Term

NO_SCORE = 0.0


def idf(pages_with: int, pages: int) -> float:
    """Return the inverse document frequency of BM25, as tantivy computes it."""
    return log(1 + (pages - pages_with + 0.5) / (pages_with + 0.5))


def captured_until(schema: tantivy.Schema, moment_s: int) -> IndexQuery:
    """Return a query for the pages whose indexed version was captured up to a second."""
    return IndexQuery.range_query(schema, "visited_s", FieldType.Integer, None, moment_s)


def page_count(searcher: tantivy.Searcher) -> int:
    """Return the number of pages, counted as tantivy counts a term's: with those deleted since the last merge."""
    return searcher.doc_freq("within", ROOT)


def every_page(schema: tantivy.Schema) -> IndexQuery:
    """Return a query for all pages of an index.

    tantivy's own query for that would also count pages of other machines (index/remote_pages.py).
    """
    return IndexQuery.term_query(schema, "within", ROOT)


class Compiler:
    """Compiler of plans for one view of one index."""

    def __init__(
        self,
        schema: tantivy.Schema,
        searcher: tantivy.Searcher,
        elsewhere: int = 0,
        captured_until_s: int | None = None,
    ) -> None:
        """Prepare a compiler; `elsewhere` is the number of pages on other machines (index/remote_pages.py).

        With `captured_until_s` queries find only pages whose indexed version was captured up to that second.
        """
        self._schema = schema
        self._captured_until_s = captured_until_s
        self._searcher = searcher
        self._pages = page_count(searcher) + elsewhere
        self._idfs: dict[tuple[str, str], float | None] = {}

    def query(self, plan: Plan) -> IndexQuery:
        """Return the query of a whole plan: the scored part and the conditions."""
        clauses = [self._condition(each) for each in plan.conditions]
        if self._captured_until_s is not None:
            captured = captured_until(self._schema, self._captured_until_s)
            clauses.append((Occur.Must, IndexQuery.const_score_query(captured, NO_SCORE)))
        if plan.scored is not None:
            scored = self._group(plan.scored)
            # A word that is required is on no page of this shard.
            if scored is None:
                return IndexQuery.empty_query()
            clauses.append((Occur.Must, scored))
        elif not any(occur == Occur.Must for occur, _ in clauses):
            clauses.append((Occur.Must, every_page(self._schema)))
        excluded = (self._part(part) for part in plan.excluded)
        clauses += [(Occur.MustNot, query) for query in excluded if query is not None]
        return clauses[0][1] if len(clauses) == 1 else IndexQuery.boolean_query(clauses)

    def leaf(self, leaf: Leaf) -> IndexQuery | None:
        """Return one term or phrase, boosted; None if no page of this index has it."""
        texts = (leaf.text,) if isinstance(leaf, Term) else leaf.texts
        here = [self._idf(leaf.field, text) for text in texts]
        if not here or None in here:
            return None
        # tantivy multiplies by its own idf, that of a phrase being the sum of its words': the division undoes it.
        boost = leaf.boost * leaf.idf / sum(filter(None, here))
        return IndexQuery.boost_query(self._bare(leaf), boost)

    def _bare(self, leaf: Leaf) -> IndexQuery:
        if isinstance(leaf, Term):
            return IndexQuery.term_query(self._schema, leaf.field, leaf.text)
        return self._phrase(leaf.field, leaf.texts, leaf.slop)

    def _phrase(self, field: str, texts: tuple[str, ...], slop: int = 0) -> IndexQuery:
        if len(texts) == 1:
            return IndexQuery.term_query(self._schema, field, texts[0])
        return IndexQuery.phrase_query(self._schema, field, list(texts), slop)

    def _idf(self, field: str, text: str) -> float | None:
        known = (field, text)
        if known not in self._idfs:
            # `_pages` includes other machines, as tantivy's own count of pages does here (index/remote_pages.py).
            count = self._searcher.doc_freq(field, text)
            self._idfs[known] = idf(count, self._pages) if count else None
        return self._idfs[known]

    def _part(self, part: Part) -> IndexQuery | None:
        return self._group(part) if isinstance(part, Group) else self.leaf(part)

    def _group(self, group: Group) -> IndexQuery | None:
        """Return a group's query; None if nothing can match: a `must` part is missing, or all of `should` are."""
        must = [self._part(part) for part in group.must]
        should = [query for part in group.should if (query := self._part(part)) is not None]
        if any(query is None for query in must) or not (must or should):
            return None
        clauses = [(Occur.Must, query) for query in must if query is not None]
        clauses += [(Occur.Should, query) for query in should]
        clauses += [(Occur.MustNot, query) for part in group.must_not if (query := self._part(part)) is not None]
        return clauses[0][1] if len(clauses) == 1 else IndexQuery.boolean_query(clauses)

    def _condition(self, condition: Condition) -> tuple[Occur, IndexQuery]:
        match condition:
            case AnyOf(field, values, excluded):
                query = _either([IndexQuery.term_query(self._schema, field, value) for value in values])
            case InTitle(runs, excluded):
                query = _either([self._phrase("title", run) for run in runs])
            case Dated(from_s, before_s):
                query = self._between(from_s, before_s)
                excluded = False
        return (Occur.MustNot, query) if excluded else (Occur.Must, IndexQuery.const_score_query(query, NO_SCORE))

    def _between(self, from_s: int | None, before_s: int | None) -> IndexQuery:
        # tantivy's range includes its end.
        last_s = None if before_s is None else before_s - 1
        return IndexQuery.range_query(self._schema, "date_s", FieldType.Integer, from_s, last_s)


def _either(queries: list[IndexQuery]) -> IndexQuery:
    return queries[0] if len(queries) == 1 else IndexQuery.boolean_query([(Occur.Should, query) for query in queries])
