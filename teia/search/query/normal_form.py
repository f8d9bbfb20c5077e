"""A normal form for clauses that mean the same, and the limits on their number.

`(a OR b) c`, `a (b c)` and `a b c` match the same pages and become the same tree, so that a compiler has fewer
cases, a cache more hits, and the canonical text can be parsed. A parenthesis stays only where it changes something.

The meaning of a parenthesis of only `must_not` depends on its position. It matches no page by itself, so as an
alternative or a requirement it restricts the clauses around it. If it is excluded, one of its nodes is required.
"""

from __future__ import annotations

from teia.search.query.notes import NoteKind, QueryNotes
from teia.search.query.tree import (
    MAX_CANDIDATES,
    MAX_CONDITIONS,
    Clauses,
    Leaf,
    Node,
    Phrase,
    Word,
    is_plain,
    leaves,
)


class Builder:
    """Clauses under construction, in normal form at every moment."""

    def __init__(self) -> None:
        self._must: dict[Node, None] = {}
        self._must_not: dict[Node, None] = {}
        self._should: dict[Node, int] = {}
        self.overflow = False

    def must(self, node: Node) -> None:
        """Require a node: its requirements are required here, recursively; its alternatives stay a parenthesis."""
        if not isinstance(node, Clauses):
            self._must[_once(node)] = None
            return
        for each in node.must_not:
            self.must_not(each)
        if node.must:
            for each in node.must:
                self.must(each)
            for each in node.should:
                self.should(each)
        elif len(node.should) == 1:
            self.must(node.should[0])
        elif node.should:
            self._must[Clauses(should=node.should)] = None

    def should(self, node: Node) -> None:
        """Add an alternative. A word that is there already counts once more."""
        if not isinstance(node, Clauses):
            times = node.times if isinstance(node, Word) else 1
            self._count(_once(node), times)
        elif not (node.must or node.should):
            for each in node.must_not:
                self.must_not(each)
        elif not (node.must or node.must_not):
            for each in node.should:
                self.should(each)
        elif len(node.must) == 1 and not (node.should or node.must_not):
            self.should(node.must[0])
        else:
            self._count(node, 1)

    def must_not(self, node: Node) -> None:
        """Exclude a node. Excluding alternatives excludes each; optional words change nothing and are dropped."""
        if not isinstance(node, Clauses):
            self._must_not[_once(node)] = None
        elif not (node.must or node.should):
            # Not (not a and not b) is a or b.
            self.must(Clauses(should=node.must_not))
        elif not (node.must or node.must_not):
            for each in node.should:
                self.must_not(each)
        else:
            # Beside requirements, alternatives only score, and an excluded part has no score.
            required = Clauses(must=node.must, must_not=node.must_not) if node.must else node
            if len(required.must) == 1 and not required.must_not:
                self.must_not(required.must[0])
            else:
                self._must_not[required] = None

    def _count(self, node: Node, times: int) -> None:
        if node in self._should:
            self._should[node] += times if isinstance(node, Word) else 0
        elif len(self._should) < MAX_CANDIDATES:
            self._should[node] = times
        else:
            self.overflow = True

    def clauses(self) -> Clauses:
        should = tuple(
            Word(node.text, times) if isinstance(node, Word) and times != node.times else node
            for node, times in self._should.items()
        )
        only = should[0] if len(should) == 1 else None
        # A single alternative is a requirement: its clauses move up, and the parenthesis goes.
        if isinstance(only, Clauses) and not self._must:
            self._should.clear()
            self._absorb(only)
            return self.clauses()
        if isinstance(only, Phrase) and not only.joined:
            # Quotes require, unless OR stands beside them: a lone phrase is required, or was optional and is dropped.
            self._should.clear()
            if not self._must:
                self.must(only)
            return self.clauses()
        return Clauses(tuple(self._must), should, tuple(self._must_not))

    def _absorb(self, clauses: Clauses) -> None:
        for each in clauses.must:
            self.must(each)
        for each in clauses.should:
            self.should(each)
        for each in clauses.must_not:
            self.must_not(each)


def _once(node: Leaf) -> Leaf:
    return Word(node.text) if isinstance(node, Word) else node


def limit_conditions(clauses: Clauses, spent: int, notes: QueryNotes) -> Clauses:
    """Keep the first conditions, of which `spent` were filters. Plain words at the top are free.

    A condition is used whole or left out, because a part of it would mean something else; only a list of
    alternatives is cut.
    """
    left = MAX_CONDITIONS - spent
    builder = Builder()
    kinds = ((clauses.must, builder.must), (clauses.must_not, builder.must_not), (clauses.should, builder.should))
    for nodes, add in kinds:
        for node in nodes:
            # `rewrite.drop_weak_words` limits plain words later, when their worth is known.
            if nodes is clauses.should and is_plain(node):
                add(node)
                continue
            fitting = _fit(node, left)
            if fitting is not node:
                notes.add(NoteKind.CONDITIONS)
            if fitting is not None:
                left -= _size(fitting)
                add(fitting)
    return builder.clauses()


def _fit(node: Node, room: int) -> Node | None:
    if _size(node) <= room:
        return node
    if room > 0 and isinstance(node, Clauses) and not (node.must or node.must_not):
        first = node.should[:room]
        if not any(isinstance(each, Clauses) for each in first):
            return Clauses(should=first)
    return None


def _size(node: Node) -> int:
    return sum(1 for _ in leaves(node))
