"""The URLs of one host: slots and paths, each made from the other.

A host with `size` pages has slots 0 to size - 1; slot 0 is `/`. Slot k links to slots 8k + 1 to 8k + 8, a tree, so that
every page is reachable. What a slot is (its kind), its title and its path are functions of its number and the host's
salt. A path ends in the number (`/noticias/a-ponte-velha-em-debate-em-valbela-1234.html`), so it leads back to the
slot, and the rest of it must be what the slot's path would be: anything else is not a page here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from teia.lab.draws import GOLDEN, MASK64, MIX, scramble
from teia.lab.faults import Kind, Odds
from teia.lab.hosts import BRANCHES, SECTION_FRONTS, Host
from teia.lab.prose import Lexicon

_IN_PATH = re.compile(rb"-([0-9]{1,10})(?:\.[a-z0-9]{1,4})?(?:[?;&]|$)")
_IN_QUERY = re.compile(rb"[?&]id=([0-9]{1,10})(?:[?;&]|$)")
_WITHOUT_QUERY = re.compile(rb"[?;]")
_AFTER_PATH = b"?;&"
_MOST_DIGITS = 10
_FILE_TYPES = (b".zip", b".mp3")


class AnchorForm(Protocol):
    """How a page writes a link; see `markup.Markup`."""

    @property
    def escapes(self) -> bool: ...

    @property
    def anchor(self) -> bytes: ...

    @property
    def path_anchor(self) -> bytes: ...

    @property
    def query_anchor(self) -> bytes: ...


class UrlSpace:
    """Slots and paths of one host. Paths are bytes without their first slash, as the hot path needs them."""

    __slots__ = (
        "_escaped_sections", "_extension", "_front_paths", "_fronts", "_head_slugs", "_heads", "_orphan_below",
        "_queries", "_salt", "_sections", "_special_below", "_tail_slugs", "_tails", "first_leaf", "has_orphans",
        "host", "lexicon", "odds", "size",
    )  # fmt: skip

    def __init__(self, host: Host, lexicon: Lexicon, odds: Odds) -> None:
        self.host, self.lexicon, self.odds = host, lexicon, odds
        self.size = host.size
        self.has_orphans = odds.orphan_below > 0
        self.first_leaf = host.first_leaf
        self._salt = host.salt & MASK64
        self._heads, self._tails = lexicon.heads, lexicon.tails
        self._head_slugs, self._tail_slugs = lexicon.head_slugs, lexicon.tail_slugs
        self._extension = host.extension.encode()
        self._orphan_below, self._special_below = odds.orphan_below, odds.special_path_below
        self._fronts = host.fronts
        self._front_paths = [b"", *(section + b"/" for section in lexicon.sections[: self._fronts])]
        self._queries = host.queries
        self._sections = lexicon.query_starts if host.queries else lexicon.path_starts
        self._escaped_sections = lexicon.escaped_query_starts if host.queries else lexicon.path_starts

    def kind(self, slot: int) -> Kind:
        """Return what a slot is. Slots with children are always pages."""
        if slot < self.first_leaf:
            return Kind.PAGE
        return self.odds.kind(scramble(slot, self._salt) >> 40)

    def title(self, slot: int, revision: int = 0) -> bytes:
        """Return the title of a page; later revisions of it may have another ending than links say."""
        if slot <= self._fronts:
            return self._front_title(slot)
        bits = scramble(slot, self._salt)
        return b"%b %b" % (self._heads[bits >> 32 & 0xFF], self._tails[(bits >> 24) + revision & 0xFF])

    def path(self, slot: int) -> bytes:
        """Return the path of a slot, which no other slot has."""
        if slot <= self._fronts:
            return self._front_paths[slot]
        return self._path_of(slot, scramble(slot, self._salt))

    def reference(self, slot: int) -> tuple[bytes, bytes]:
        """Return path and title of a slot."""
        if slot <= self._fronts:
            return self._front_paths[slot], self._front_title(slot)
        bits = scramble(slot, self._salt)
        return self._path_of(slot, bits), b"%b %b" % (self._heads[bits >> 32 & 0xFF], self._tails[bits >> 24 & 0xFF])

    def _path_of(self, slot: int, bits: int) -> bytes:
        slugs = (self._head_slugs[bits >> 32 & 0xFF], self._tail_slugs[bits >> 24 & 0xFF], slot)
        if bits >> 40 < self._special_below and slot >= self.first_leaf:
            kind = self.odds.kind(bits >> 40)
            if kind is not Kind.ORPHAN:
                return _special_path(self.lexicon, kind, *slugs)
        section = self._sections[(bits >> 8 & 0xFFFF) % SECTION_FRONTS]
        if self._queries:
            return b"%b%d" % (section, slot)
        return b"%b%b-%b-%d%b" % (section, *slugs, self._extension)

    def anchors(self, form: AnchorForm, slots: Iterable[int], prefix: bytes, session: bytes = b"") -> list[bytes]:
        """Render links to slots of this host, as `form` writes them.

        The same as `reference` and a template, at a third of the price: most of a page's time goes here.
        """
        salt, fronts, special, first_leaf = self._salt, self._fronts, self._special_below, self.first_leaf
        heads, tails, head_slugs, tail_slugs = self._heads, self._tails, self._head_slugs, self._tail_slugs
        queries, ending = self._queries, self._extension + session
        sections = self._escaped_sections if form.escapes else self._sections
        if queries:
            ending = session.replace(b"&", b"&amp;") if form.escapes else session
        template = form.query_anchor if queries else form.path_anchor
        found = []
        for slot in slots:
            bits = (slot ^ salt) * MIX & MASK64
            bits = (bits ^ bits >> 32) * GOLDEN & MASK64
            head, tail = bits >> 32 & 0xFF, bits >> 24 & 0xFF
            if slot <= fronts or (bits >> 40 < special and slot >= first_leaf):
                path, title = self.reference(slot)
                url = prefix + with_session(path, session)
                found.append(form.anchor % (url.replace(b"&", b"&amp;") if form.escapes else url, b"", title))
            elif queries:
                section = sections[(bits >> 8 & 0xFFFF) % SECTION_FRONTS]
                found.append(template % (prefix, section, slot, ending, heads[head], tails[tail]))
            else:
                section = sections[(bits >> 8 & 0xFFFF) % SECTION_FRONTS]
                parts = (prefix, section, head_slugs[head], tail_slugs[tail], slot, ending, heads[head], tails[tail])
                found.append(template % parts)
        return found

    def find(self, target: bytes) -> int | None:
        """Return the slot that a request target, without its first slash, stands for."""
        digits = target[target.rfind(b"=" if self._queries else b"-") + 1 :].partition(b".")[0]
        if digits.isdigit() and len(digits) <= _MOST_DIGITS:
            slot = int(digits)
            if self._fronts < slot < self.size and self.path(slot) == target:
                return slot
        return self._find_unusual(target)

    def _find_unusual(self, target: bytes) -> int | None:
        """Return the slot of a first page, or of a target that goes on with a session or a query."""
        path = _WITHOUT_QUERY.split(target, 1)[0]
        if path in self._front_paths:
            return self._front_paths.index(path)
        match = _IN_PATH.search(target) or _IN_QUERY.search(target)
        slot = int(match.group(1)) if match else 0
        if not self._fronts < slot < self.size:
            return None
        path = self.path(slot)
        is_whole = target == path or (target.startswith(path) and target[len(path)] in _AFTER_PATH)
        return slot if is_whole else None

    def linkable(self, slot: int) -> int:
        """Return the slot itself, or its parent where no page may link to it."""
        if slot >= self.first_leaf and self.has_orphans and scramble(slot, self._salt) >> 40 < self._orphan_below:
            return self.parent(slot)
        return slot

    def live(self, slot: int) -> int:
        """Return the slot itself if it is an ordinary page, else its parent, which always is."""
        return slot if self.kind(slot) is Kind.PAGE else self.parent(slot)

    def children(self, slot: int) -> list[int]:
        """Slots below this one in the tree that are linked."""
        if slot >= self.first_leaf:
            return []
        first = BRANCHES * slot + 1
        below = range(first, min(first + BRANCHES, self.size))
        return [child for child in below if self.linkable(child) == child] if self.has_orphans else list(below)

    @staticmethod
    def parent(slot: int) -> int:
        return max(0, (slot - 1) // BRANCHES)

    def _front_title(self, slot: int) -> bytes:
        name = self.host.title if slot == 0 else self.lexicon.language.sections[slot - 1][1]
        return name.encode(self.lexicon.codec)


def with_session(path: bytes, session: bytes) -> bytes:
    """A path with a session id behind it; the id begins with the sign that pages of the host need before it."""
    if session.startswith(b"&") and b"?" not in path:
        session = b"?" + session[1:]
    return path + session


def _special_path(lexicon: Lexicon, kind: Kind, head: bytes, tail: bytes, slot: int) -> bytes:
    """Path of what is not a page of a section: its folder and its extension say what it is."""
    if kind is Kind.PDF:
        folder, extension = "documents", b".pdf"
    elif kind is Kind.FORBIDDEN_TYPE:
        folder, extension = "files", _FILE_TYPES[slot % 2]
    else:
        folder, extension = "private", b".html"
    return b"%b/%b-%b-%d%b" % (lexicon.phrases[folder], head, tail, slot, extension)


class Place(NamedTuple):
    """Where a request leads: a host's URL space, the kind of thing there, and its slot if it has one."""

    space: UrlSpace
    kind: Kind
    path: bytes  # of the request, without its first slash
    slot: int = -1
