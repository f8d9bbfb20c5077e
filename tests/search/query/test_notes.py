"""What a person is told."""

from __future__ import annotations

from teia.search.query.notes import MAX_NOTES, NoteKind, QueryNotes, make_note
from teia.search.query.parser import parse
from teia.search.query.tree import (
    MAX_CANDIDATES,
    MAX_CHARS,
    MAX_CONDITIONS,
    MAX_DEPTH,
    MAX_PHRASE_WORDS,
    MAX_PREFIXES,
    MAX_TERMS,
    MIN_PREFIX_CHARS,
)


def test_no_two_notes_say_the_same() -> None:
    """That each is translated, tests/web/language holds."""
    assert len({kind.value for kind in NoteKind}) == len(NoteKind)


def test_the_limits_that_are_named_are_the_limits_that_hold() -> None:
    named = {
        NoteKind.TEXT_CUT: MAX_CHARS,
        NoteKind.TOO_DEEP: MAX_DEPTH,
        NoteKind.CONDITIONS: MAX_CONDITIONS,
        NoteKind.CANDIDATES: MAX_CANDIDATES,
        NoteKind.TERMS: MAX_TERMS,
        NoteKind.PHRASE_LONG: MAX_PHRASE_WORDS,
        NoteKind.PREFIX_SHORT: MIN_PREFIX_CHARS,
        NoteKind.PREFIXES: MAX_PREFIXES,
    }
    for kind, limit in named.items():
        assert f"{limit:,}" in kind.value


def test_a_detail_is_one_printable_line_and_not_long() -> None:
    query = parse("site:\x1b[31m\u202e" + "é!" * 100)
    assert query.notes[0].code == NoteKind.BAD_HOST.value
    assert all(line.isprintable() and len(line) < 200 for line in query.notes)


def test_braces_in_a_query_are_only_text() -> None:
    assert make_note(NoteKind.BAD_LANG, "lang:{}{0}%s").startswith("lang:{}{0}%s is not")


def test_the_notes_on_a_query_are_limited() -> None:
    notes = QueryNotes()
    for number in range(100):
        notes.add(NoteKind.FILTER_UNKNOWN, f"f{number}:")
        notes.add(NoteKind.FILTER_UNKNOWN, "f0:")
    assert len(notes.all()) == MAX_NOTES
