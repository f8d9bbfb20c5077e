"""Explanations of a result's rank: every part of its score (`--explain`)."""

from __future__ import annotations

from collections.abc import Sequence

from teia.search.rank.make_plan import counted_term
from teia.search.rank.plan import Leaf, Plan, Term, leaves
from teia.search.rank.rows import Rows
from teia.search.rank.statistics import TermCounts
from teia.search.serve.gateway import QueryFanOut, keys_by_shard
from teia.search.show.results import Component, Explanation


def explain_rows(fan_out: QueryFanOut, plan: Plan, rows: Rows, counts: TermCounts) -> dict[int, Explanation]:
    """Return the explanation of each row, by key."""
    parts: dict[int, Sequence[float]] = {}
    scores = fan_out.start_keys(keys_by_shard(rows), lambda shard, keys: shard.leaf_scores(plan, keys))
    for answer in scores.collect().values():
        parts.update(answer)
    scored = leaves(plan.scored) if plan.scored is not None else []
    return {int(row["key"]): _explanation(row, scored, parts.get(int(row["key"]), ()), counts) for row in rows}


def _explanation(row: Rows, scored: Sequence[Leaf], parts: Sequence[float], counts: TermCounts) -> Explanation:
    found = [_component(leaf, score, counts) for leaf, score in zip(scored, parts, strict=False) if score]
    return Explanation(
        text=float(row["text"]) if scored else 0.0,
        components=tuple(sorted(found, key=lambda each: -each.score)),
        authority=float(row["authority"]),
        news=float(row["news"]),
        readable=float(row["readable"]),
        semantics=float(row["semantics"]),
        passages=float(row["passages"]),
    )


def _component(leaf: Leaf, score: float, counts: TermCounts) -> Component:
    is_term = isinstance(leaf, Term)
    return Component(
        word=leaf.word,
        # Pairs of neighbours are the only phrases in the stemmed field.
        field="near" if not is_term and leaf.field == "all" else leaf.field,
        term=leaf.text if isinstance(leaf, Term) else " ".join(leaf.texts),
        boost=leaf.boost,
        idf=leaf.idf,
        pages=counts.pages_with(*counted_term(leaf.word, counts)) or None if is_term else None,
        of=counts.pages,
        score=score,
    )
