"""Clauses that mean the same become the same, and keep their meaning."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from teia.search.query.normal_form import Builder, limit_conditions
from teia.search.query.notes import NoteKind, QueryNotes
from teia.search.query.parser import parse
from teia.search.query.tree import MAX_CANDIDATES, MAX_CONDITIONS, Clauses, Node, Phrase, Prefix, Word, leaves
from tests.search.texts import matches, queries

LETTERS = ("a", "b", "c", "d")
PAGES = [frozenset(page) for size in range(5) for page in combinations(LETTERS, size)]

leaf = st.one_of(
    st.sampled_from(LETTERS).map(Word),
    st.sampled_from(LETTERS).map(Prefix),
    st.tuples(st.sampled_from(LETTERS), st.sampled_from(LETTERS)).map(Phrase),
)


def clauses_of(node: st.SearchStrategy[Node]) -> st.SearchStrategy[Clauses]:
    some = st.lists(node, max_size=3).map(tuple)
    return st.builds(Clauses, some, some, some).filter(lambda each: bool(each.must or each.should))


trees = clauses_of(st.recursive(leaf, clauses_of, max_leaves=12))


def rebuilt(node: Node) -> Node:
    """Put a tree together again from its leaves, as the parser does."""
    if not isinstance(node, Clauses):
        return node
    builder = Builder()
    for each in node.must:
        builder.must(rebuilt(each))
    for each in node.must_not:
        builder.must_not(rebuilt(each))
    for each in node.should:
        builder.should(rebuilt(each))
    return builder.clauses()


@given(trees)
def test_the_normal_form_finds_the_same_pages(tree: Clauses) -> None:
    normal = rebuilt(tree)
    assert [matches(normal, page) for page in PAGES] == [matches(tree, page) for page in PAGES]


@given(trees)
def test_the_normal_form_is_stable(tree: Clauses) -> None:
    normal = rebuilt(tree)
    assert rebuilt(normal) == normal


@given(queries)
def test_no_node_stands_twice_and_no_parenthesis_is_idle(text: str) -> None:
    todo: list[Clauses] = [parse(text).clauses]
    while todo:
        clauses = todo.pop()
        for nodes in (clauses.must, clauses.should, clauses.must_not):
            assert len(set(nodes)) == len(nodes)
            inner = [node for node in nodes if isinstance(node, Clauses)]
            assert all(node.must or node.should for node in inner)
            todo += inner
        assert not any(isinstance(node, Clauses) and (node.must or node.must_not) for node in clauses.must)


def test_conditions_beyond_the_limit_are_left_out_whole() -> None:
    notes = QueryNotes()
    pairs = tuple(Clauses(must=(Word(f"a{n}"), Word(f"b{n}"))) for n in range(40))
    kept = limit_conditions(Clauses(should=(Word("plain"), *pairs)), 1, notes)
    assert kept.should == (Word("plain"), *pairs[:15])
    assert [note.code for note in notes.all()] == [NoteKind.CONDITIONS.value]


def test_a_list_of_alternatives_is_cut() -> None:
    words = tuple(Word(f"w{n}") for n in range(40))
    kept = limit_conditions(Clauses(must=(Clauses(should=words), Word("x"))), 0, QueryNotes())
    assert kept.must == (Clauses(should=words[:32]),)
    assert sum(1 for _ in leaves(kept)) == MAX_CONDITIONS


def test_plain_words_are_free_up_to_the_candidates() -> None:
    query = parse(" ".join(f"w{n}" for n in range(2_000)))
    assert len(query.clauses.should) == MAX_CANDIDATES
    assert [note.code for note in query.notes] == [NoteKind.CANDIDATES.value]
