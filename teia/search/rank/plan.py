"""A query in the form sent to every shard: weighted terms of the index and conditions, without dictionaries.

    Term     one term of one field             Near     terms that follow each other, with so many words between
    Group    must, should, must_not of these   Condition    restricts and does not score

The *idf* of a term is that of the whole collection, and the same in every field: that of the word's stem in the
text, because a word is not more telling because few titles have it. A shard divides by its own idf
(tantivy_query.py), so that a page gets the same score on any shard. A part adds to the score of a page

    boost x idf x BM25's share for how often the page has it and how long the field is

Plans are data. A shard on another machine needs the plan and its index, not the words, the weights or the
languages.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class Term(msgspec.Struct, frozen=True, tag=True):
    """One term of one field. `word` is the query's word it stands for."""

    field: str
    text: str
    boost: float
    idf: float
    word: str


class Near(msgspec.Struct, frozen=True, tag=True):
    """Consecutive terms of a field, with at most `slop` moves of a word; its idf is the sum of theirs."""

    field: str
    texts: tuple[str, ...]
    slop: int
    boost: float
    idf: float
    word: str


class Group(msgspec.Struct, frozen=True, tag=True):
    """Like tantivy's boolean query: without `must` one of `should` has to match. An empty group matches nothing."""

    must: tuple[Part, ...] = ()
    should: tuple[Part, ...] = ()
    must_not: tuple[Part, ...] = ()


Part: TypeAlias = Term | Near | Group
Leaf: TypeAlias = Term | Near


class AnyOf(msgspec.Struct, frozen=True, tag=True):
    """Pages that have, or do not have, one of these terms in a field."""

    field: str
    values: tuple[str | int, ...]
    excluded: bool = False


class InTitle(msgspec.Struct, frozen=True, tag=True):
    """Pages that have, or do not have, one of these runs of words in their title."""

    runs: tuple[tuple[str, ...], ...]
    excluded: bool = False


class Dated(msgspec.Struct, frozen=True, tag=True):
    """Pages dated from one second to before another; None is open."""

    from_s: int | None = None
    before_s: int | None = None


Condition: TypeAlias = AnyOf | InTitle | Dated


class Plan(msgspec.Struct, frozen=True):
    """The scored group, the exclusions and the conditions. Without a scored group the newest pages come first."""

    scored: Group | None
    excluded: tuple[Part, ...] = ()
    conditions: tuple[Condition, ...] = ()


def leaves(part: Part) -> list[Leaf]:
    """Return the parts that score, in a fixed order."""
    if not isinstance(part, Group):
        return [part]
    return [leaf for below in (*part.must, *part.should) for leaf in leaves(below)]


def matching(plan: Plan) -> Plan:
    """Return a cheaper plan that matches the same pages, for callers that need no scores.

    Parts that only add to the score of matching pages are removed: neighbours, and title and headings, which are in
    the text too.
    """
    if plan.scored is None:
        return plan
    # With `must`, alternatives only score; without it, at least one of them has to match.
    if plan.scored.must:
        return msgspec.structs.replace(plan, scored=Group(plan.scored.must))
    needed = tuple(part for part in plan.scored.should if not _only_scores(part))
    return msgspec.structs.replace(plan, scored=Group(should=needed))


def _only_scores(part: Part) -> bool:
    return (isinstance(part, Near) and part.slop > 0) or (isinstance(part, Term) and part.field == "head")
