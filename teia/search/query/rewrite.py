"""Queries derived from queries: fewer words, another spelling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from teia.search.query.normal_form import Builder
from teia.search.query.notes import NoteKind, make_note
from teia.search.query.question_words import is_question_word
from teia.search.query.tree import MAX_TERMS, Clauses, Node, Phrase, Prefix, Query, Word, is_plain, times_of
from teia.search.query.words import words_of


def drop_weak_words(query: Query, worth: Callable[[Word | Phrase], float], most: int = MAX_TERMS) -> Query:
    """Drop plain question words, then keep the most telling words: times typed, multiplied by worth.

    `worth` is the idf of a word or of a phrase in the index. Nodes with a sign, quotes or a parenthesis are not
    dropped. A query of nothing but question words keeps them.
    """
    should = query.clauses.should
    telling = tuple(node for node in should if not (isinstance(node, Word) and is_question_word(node.text)))
    # "how to be" has no other words: they are searched after all.
    if telling or query.clauses.must:
        should = telling
    plain = [node for node in should if is_plain(node)]
    if len(plain) <= most and should == query.clauses.should:
        return query
    if len(plain) <= most:
        return replace(query, clauses=replace(query.clauses, should=should))
    # Equal worth: the earlier word stays, because sorting is stable.
    kept: set[Node] = set(sorted(plain, key=lambda node: -times_of(node) * worth(node))[:most])
    chosen = tuple(node for node in should if node in kept or not is_plain(node))
    notes = (*query.notes, make_note(NoteKind.TERMS))
    return replace(query, clauses=replace(query.clauses, should=chosen), notes=notes)


def replace_word(query: Query, word: str, replacement: str) -> Query:
    """Return the query with another spelling of a word, as a suggestion; exact texts stay as they are."""
    new = next(iter(words_of(replacement)), word)
    return replace(query, clauses=_rebuild(query.clauses, word, new), notes=())


def correct_words(query: Query, corrections: Mapping[str, str]) -> Query:
    """Return the query with other spellings of its plain words; filters and words with a sign or quotes stay."""
    builder = Builder()
    for node in query.clauses.must:
        builder.must(node)
    for node in query.clauses.must_not:
        builder.must_not(node)
    for node in query.clauses.should:
        builder.should(replace(node, text=corrections.get(node.text, node.text)) if isinstance(node, Word) else node)
    return replace(query, clauses=builder.clauses(), notes=())


def _rebuild(clauses: Clauses, word: str, replacement: str) -> Clauses:
    builder = Builder()
    kinds = ((clauses.must, builder.must), (clauses.must_not, builder.must_not), (clauses.should, builder.should))
    for nodes, add in kinds:
        for node in nodes:
            add(_change_node(node, word, replacement))
    return builder.clauses()


def _change_node(node: Node, word: str, replacement: str) -> Node:
    match node:
        case Clauses():
            return _rebuild(node, word, replacement)
        case Word(text, times):
            return Word(replacement, times) if text == word else node
        case Phrase(words, joined):
            return Phrase(tuple(replacement if each == word else each for each in words), joined)
        case Prefix():
            return node
