"""Comparison of two versions of a page: the words of their texts, their links, their headers (F3, T10).

Words are compared as change detection compares texts, without case and accents; so the marked differences are those
that count as a change, and without any the two count as the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from teia.lib.difference import common_blocks
from teia.parse.headers import parse_head
from teia.parse.text.normal import normalised
from teia.views.capture_reader import CaptureReader
from teia.views.captures import StoredCapture

MAX_CHARS = 1_000_000
"""Length in characters above which texts are not compared."""

AROUND = 20
"""Number of words shown beside a difference."""

MAX_SHOWN_CHARS = 30_000
"""Most characters shown of both texts, differences first; further ones are counted and not shown."""

MAX_LINKS = 200

Kind = Literal["same", "changed", "skipped"]


@dataclass(frozen=True, slots=True)
class DiffPart:
    """A part of two texts: the `same` in both, `changed` from one to the other, or `skipped` equal words."""

    kind: Kind
    before: str = ""
    after: str = ""
    words: int = 0


@dataclass(frozen=True, slots=True)
class HeaderPair:
    """A header of both answers; null where one did not have it."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Differences between two versions.

    `removed` and `added` count words; links are those that only one version has. `is_same_bytes`: nothing differs at
    all. `is_same_text`: only markup, case or accents do. `is_too_long`: the texts were not compared. `not_shown` counts
    differences that were found and are not among the parts.
    """

    is_same_bytes: bool
    is_same_text: bool
    is_too_long: bool
    removed: int
    added: int
    parts: tuple[DiffPart, ...]
    not_shown: int
    links_removed: tuple[str, ...]
    links_added: tuple[str, ...]
    headers: tuple[HeaderPair, ...]


def compare(reader: CaptureReader, before: StoredCapture, after: StoredCapture) -> Comparison:
    """Compare two captures."""
    one = reader.text(before.url, before.head, before.body)
    other = reader.text(after.url, after.head, after.body)
    is_too_long = max(len(one.text), len(other.text)) > MAX_CHARS
    parts = [] if is_too_long else list(_parts(one.text.split(), other.text.split()))
    changed = [part for part in parts if part.kind == "changed"]
    shown, not_shown = _bounded(parts)
    gone, new = set(one.links), set(other.links)
    return Comparison(
        is_same_bytes=(before.body, before.head) == (after.body, after.head),
        is_same_text=not is_too_long and not changed,
        is_too_long=is_too_long,
        removed=sum(len(part.before.split()) for part in changed),
        added=sum(len(part.after.split()) for part in changed),
        parts=tuple(shown),
        not_shown=not_shown,
        links_removed=tuple(url for url in one.links if url not in new)[:MAX_LINKS],
        links_added=tuple(url for url in other.links if url not in gone)[:MAX_LINKS],
        headers=tuple(_headers(before.head, after.head)),
    )


def _parts(one: Sequence[str], other: Sequence[str]) -> Iterator[DiffPart]:
    """Yield the common and the differing parts of two texts, in their order."""
    forms: dict[str, str] = {}
    a = b = 0
    blocks = common_blocks([_form(word, forms) for word in one], [_form(word, forms) for word in other])
    # None stands for the end of both texts.
    for block in (*blocks, None):
        a_next, b_next = (block.a, block.b) if block is not None else (len(one), len(other))
        if a < a_next or b < b_next:
            yield DiffPart("changed", " ".join(one[a:a_next]), " ".join(other[b:b_next]))
        if block is not None:
            a, b = block.a + block.size, block.b + block.size
            yield DiffPart("same", " ".join(one[block.a : a]), " ".join(other[block.b : b]), block.size)


def _form(word: str, forms: dict[str, str]) -> str:
    """Return the form of a word that is compared; `forms` caches it, since words repeat."""
    form = forms.get(word)
    if form is None:
        # A word of signs alone has no normal form.
        form = forms[word] = normalised(word) or word
    return form


def _bounded(parts: Sequence[DiffPart]) -> tuple[list[DiffPart], int]:
    """Return the differences with some words around each, as many as fit, and how many did not."""
    shown: list[DiffPart] = []
    room, not_shown = MAX_SHOWN_CHARS, 0
    for at, part in enumerate(parts):
        if part.kind == "changed":
            fits = len(part.before) + len(part.after) <= room
            if fits:
                shown.append(part)
                room -= len(part.before) + len(part.after)
            else:
                not_shown += 1
        elif room > 0:
            pieces = list(_around(part, is_first=at == 0, is_last=at == len(parts) - 1))
            shown += pieces
            room -= sum(len(piece.before) for piece in pieces)
    return shown, not_shown


def _around(part: DiffPart, *, is_first: bool, is_last: bool) -> Iterator[DiffPart]:
    """Shorten a stretch that is the same in both: yield its ends, and how many words lie between."""
    before, after = part.before.split(" "), part.after.split(" ")
    head = 0 if is_first else AROUND
    tail = 0 if is_last else AROUND
    # To skip one or two words would save nothing.
    if part.words <= head + tail + 2:
        yield part
        return
    if head:
        yield DiffPart("same", " ".join(before[:head]), " ".join(after[:head]), head)
    yield DiffPart("skipped", words=part.words - head - tail)
    if tail:
        yield DiffPart("same", " ".join(before[-tail:]), " ".join(after[-tail:]), tail)


def _headers(before: bytes, after: bytes) -> Iterator[HeaderPair]:
    one, other = parse_head(before).headers, parse_head(after).headers
    for name in dict.fromkeys((*one.names, *other.names)):
        yield HeaderPair(name, "; ".join(one.all(name)) or None, "; ".join(other.all(name)) or None)
