"""A query as every shard is asked it: terms of the index with weights, conditions, and nothing that needs a dictionary.

    Term     one term of one field             Near     terms that follow each other, with so many words between
    Group    must, should, must_not of these   Condition    restricts and does not score

The *idf* of a term is that of the whole collection, and the same in every field: that of the word's stem in the text,
for a word is not more telling because few titles have it. A shard divides by its own (compile.py), so that a page gets
the same score wherever it lies (SEARCH 6). What a part adds to the score of a page is

    boost x idf x BM25's share for how often the page has it and how long the field is

Plans are data. A shard on another machine needs the plan and its index, not the words, the weights or the languages.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class Term(msgspec.Struct, frozen=True, tag=True):
    """One term of one field. `word` is what it stands for in the query."""

    field: str
    text: str
    boost: float
    idf: float
    word: str


class Near(msgspec.Struct, frozen=True, tag=True):
    """Terms that follow each other in a field, with at most `slop` moves of a word; its idf is the sum of theirs."""

    field: str
    texts: tuple[str, ...]
    slop: int
    boost: float
    idf: float
    word: str


class Group(msgspec.Struct, frozen=True, tag=True):
    """As tantivy's boolean query: without `must` one of `should` has to match. An empty group matches nothing."""

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
    """What to score, what must not be there, and what must hold. Without anything to score the newest come first."""

    scored: Group | None
    excluded: tuple[Part, ...] = ()
    conditions: tuple[Condition, ...] = ()


def leaves(part: Part) -> list[Leaf]:
    """The parts that score, in a fixed order."""
    if not isinstance(part, Group):
        return [part]
    return [leaf for below in (*part.must, *part.should) for leaf in leaves(below)]


def matching(plan: Plan) -> Plan:
    """A plan for the same pages that is cheaper, for where no scores are needed.

    What only adds to the score of pages that match anyway goes: neighbours, and title and headings, which are in the
    text too.
    """
    if plan.scored is None:
        return plan
    if plan.scored.must:
        return msgspec.structs.replace(plan, scored=Group(plan.scored.must))
    needed = tuple(part for part in plan.scored.should if not _only_scores(part))
    return msgspec.structs.replace(plan, scored=Group(should=needed))


def _only_scores(part: Part) -> bool:
    return (isinstance(part, Near) and part.slop > 0) or (isinstance(part, Term) and part.field == "head")
