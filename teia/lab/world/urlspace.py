"""The URLs of one host: slots and paths, each computed from the other.

A host with `size` pages has slots 0 to size - 1; slot 0 is `/`. Slot k links to slots 8k + 1 to 8k + 8, a tree, so that
every page is reachable. The kind of a slot, its title and its path are functions of its number and the host's salt. A
path ends in the number (`/noticias/a-ponte-velha-em-debate-em-valbela-1234.html`), so it leads back to the slot. The
rest of it must match the slot's path; any other path is not a page here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple, Protocol

import msgspec

from teia.lab.text.prose import Lexicon
from teia.lab.world.draws import GOLDEN, MASK64, MIX, scramble
from teia.lab.world.hosts import BRANCHES, SECTION_FRONTS, WorldHost
from teia.lab.world.url_kinds import Odds, UrlKind

_IN_PATH = re.compile(rb"-([0-9]{1,10})(?:\.[a-z0-9]{1,4})?(?:[?;&]|$)")
_IN_QUERY = re.compile(rb"[?&]id=([0-9]{1,10})(?:[?;&]|$)")
_WITHOUT_QUERY = re.compile(rb"[?;]")
_AFTER_PATH = b"?;&"
_MOST_DIGITS = 10
_FILE_TYPES = (b".zip", b".mp3")
_PAGE = UrlKind.PAGE  # looking a member up in its class costs more than drawing it


class AnchorForm(Protocol):
    """Templates of a link on a page; see `markup.Markup`."""

    @property
    def escapes(self) -> bool: ...

    @property
    def anchor(self) -> bytes: ...

    @property
    def path_anchor(self) -> bytes: ...

    @property
    def query_anchor(self) -> bytes: ...


class LinkStyle(NamedTuple):
    """The form of links that the pages in one folder of a host write to its pages, during one session.

    The shared parts of these links are already in the template. Links to the first pages, which by the power law are
    the most frequent ones, are ready.
    """

    form: AnchorForm
    prefix: bytes
    session: bytes
    template: bytes  # section, two slugs, number, title in two; on hosts with query URLs without the slugs
    sections: tuple[bytes, ...]
    fronts: tuple[bytes, ...]


class UrlSpace:
    """Slots and paths of one host. Paths are bytes without their first slash, as the hot path needs them."""

    __slots__ = (
        "_escaped_sections", "_extension", "_front_paths", "_front_titles", "_fronts", "_head_slugs", "_heads",
        "_odd_bits", "_orphan_bits", "_queries", "_salt", "_sections", "_special_bits", "_tail_slugs", "_tails",
        "content", "first_leaf", "has_orphans", "host", "lexicon", "names", "odds", "size",
    )  # fmt: skip

    def __init__(self, host: WorldHost, lexicon: Lexicon, odds: Odds) -> None:
        self.host, self.lexicon, self.odds = host, lexicon, odds
        self.size, self.content = host.size, host.content
        self.names = (host.name, host.aliases[0] if host.aliases else host.name)
        self.has_orphans = odds.orphan_below > 0
        self.first_leaf = host.first_leaf
        self._salt = host.salt & MASK64
        self._heads, self._tails = lexicon.heads, lexicon.tails
        self._head_slugs, self._tail_slugs = lexicon.head_slugs, lexicon.tail_slugs
        self._extension = host.extension.encode()
        # Compared with all 64 bits of a slot, whose upper 24 hold the kind; this saves a shift for every link.
        self._orphan_bits, self._special_bits = odds.orphan_below << 40, odds.special_path_below << 40
        self._odd_bits = odds.odd_below << 40
        self._fronts = host.fronts
        self._front_paths = [b"", *(section + b"/" for section in lexicon.sections[: self._fronts])]
        self._front_titles = [host.title.encode(lexicon.codec), *lexicon.section_titles[: self._fronts]]
        self._queries = host.queries
        self._sections = lexicon.query_starts if host.queries else lexicon.path_starts
        self._escaped_sections = lexicon.escaped_query_starts if host.queries else lexicon.path_starts

    def kind(self, slot: int) -> UrlKind:
        """Return the kind of a slot. Slots with children are always pages."""
        if slot < self.first_leaf:
            return _PAGE
        bits = scramble(slot, self._salt)
        return _PAGE if bits >= self._odd_bits else self.odds.kind(bits >> 40)

    def title(self, slot: int, revision: int = 0) -> bytes:
        """Return the title of a page; later revisions of it may have another ending than links show."""
        if slot <= self._fronts:
            return self._front_titles[slot]
        bits = scramble(slot, self._salt)
        return b"%b %b" % (self._heads[bits >> 32 & 0xFF], self._tails[(bits >> 24) + revision & 0xFF])

    def path(self, slot: int) -> bytes:
        """Return the path of a slot, which is unique."""
        return self.reference(slot)[0]

    def reference(self, slot: int, revision: int = 0) -> tuple[bytes, bytes]:
        """Return path and title of a slot; see `title` for the revision."""
        if slot <= self._fronts:
            return self._front_paths[slot], self._front_titles[slot]
        bits = scramble(slot, self._salt)
        low = bits >> 8 & 0xFFFFFFFF
        head, tail = low >> 24, low >> 16 & 0xFF
        title = b"%b %b" % (self._heads[head], self._tails[tail + revision & 0xFF])
        section = self._sections[(low & 0xFFFF) % SECTION_FRONTS]
        if bits < self._special_bits and slot >= self.first_leaf:
            kind = self.odds.kind(bits >> 40)
            if kind is not UrlKind.ORPHAN:
                slugs = (self._head_slugs[head], self._tail_slugs[tail])
                return _special_path(self.lexicon, kind, *slugs, slot), title
        if self._queries:
            return b"%b%d" % (section, slot), title
        return b"%b%b-%b-%d%b" % (section, self._head_slugs[head], self._tail_slugs[tail], slot, self._extension), title

    def style(self, form: AnchorForm, prefix: bytes, session: bytes = b"") -> LinkStyle:
        """Prepare to write links that begin with `prefix` and end with `session`. Neither holds a percent sign."""
        if self._queries:
            ending = session.replace(b"&", b"&amp;") if form.escapes else session
            template = form.query_anchor % (prefix, ending)
        else:
            template = form.path_anchor % (prefix, self._extension + session)
        sections = self._escaped_sections if form.escapes else self._sections
        fronts = tuple(self.anchor(form, slot, prefix, session) for slot in range(self._fronts + 1))
        return LinkStyle(form, prefix, session, template, sections, fronts)

    def anchor(self, form: AnchorForm, slot: int, prefix: bytes, session: bytes, attributes: bytes = b"") -> bytes:
        """Render a link to any slot of this host."""
        path, title = self.reference(slot)
        url = prefix + with_session(path, session)
        return form.anchor % (url.replace(b"&", b"&amp;") if form.escapes else url, attributes, title)

    def anchors(self, style: LinkStyle, slots: Iterable[int]) -> list[bytes]:
        """Render links to slots of this host.

        The same as `anchor` at a third of the cost: most of a page's time is spent here, so `scramble` is inlined.
        """
        form, prefix, session, template, sections, ready = style
        salt, fronts, special, first_leaf = self._salt, self._fronts, self._special_bits, self.first_leaf
        heads, tails, head_slugs, tail_slugs = self._heads, self._tails, self._head_slugs, self._tail_slugs
        queries = self._queries
        found = []
        for slot in slots:
            if slot <= fronts:
                found.append(ready[slot])
                continue
            bits = (slot ^ salt) * MIX & MASK64
            bits = (bits ^ bits >> 32) * GOLDEN
            if slot >= first_leaf and bits & MASK64 < special:
                found.append(self.anchor(form, slot, prefix, session))
                continue
            low = bits >> 8 & 0xFFFFFFFF
            head, tail, section = low >> 24, low >> 16 & 0xFF, sections[(low & 0xFFFF) % SECTION_FRONTS]
            if queries:
                found.append(template % (section, slot, heads[head], tails[tail]))
            else:
                parts = (section, head_slugs[head], tail_slugs[tail], slot, heads[head], tails[tail])
                found.append(template % parts)
        return found

    def find(self, target: bytes) -> int | None:
        """Return the slot of a request target, given without its first slash."""
        digits = target[target.rfind(b"=" if self._queries else b"-") + 1 :].partition(b".")[0]
        if digits.isdigit() and len(digits) <= _MOST_DIGITS:
            slot = int(digits)
            if self._fronts < slot < self.size and self.path(slot) == target:
                return slot
        return self._find_unusual(target)

    def _find_unusual(self, target: bytes) -> int | None:
        """Return the slot of a first page, or of a target that continues with a session or a query."""
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
        if slot >= self.first_leaf and self.has_orphans and scramble(slot, self._salt) < self._orphan_bits:
            return self.parent(slot)
        return slot

    def linkables(self, slots: Iterable[int]) -> list[int]:
        """Apply `linkable` to each of many slots; again with `scramble` inlined."""
        salt, first_leaf, orphans = self._salt, self.first_leaf, self._orphan_bits
        found = []
        for slot in slots:
            bits = (slot ^ salt) * MIX & MASK64
            is_orphan = slot >= first_leaf and (bits ^ bits >> 32) * GOLDEN & MASK64 < orphans
            found.append((slot - 1) // BRANCHES if is_orphan else slot)
        return found

    def live(self, slot: int) -> int:
        """Return the slot itself if it is an ordinary page, else its parent, which always is one."""
        return slot if self.kind(slot) is UrlKind.PAGE else self.parent(slot)

    def children(self, slot: int) -> list[int]:
        """Return the linked slots below this one in the tree."""
        if slot >= self.first_leaf:
            return []
        first = BRANCHES * slot + 1
        below = range(first, min(first + BRANCHES, self.size))
        return [child for child in below if self.linkable(child) == child] if self.has_orphans else list(below)

    @staticmethod
    def parent(slot: int) -> int:
        return max(0, (slot - 1) // BRANCHES)


def with_session(path: bytes, session: bytes) -> bytes:
    """Append a session id to a path; the id begins with the separator that URLs of the host need."""
    if session.startswith(b"&") and b"?" not in path:
        session = b"?" + session[1:]
    return path + session


def _special_path(lexicon: Lexicon, kind: UrlKind, head: bytes, tail: bytes, slot: int) -> bytes:
    """Return the path of a URL that is not a page of a section: its folder and extension show its kind."""
    if kind is UrlKind.PDF:
        folder, extension = "documents", b".pdf"
    elif kind is UrlKind.FORBIDDEN_TYPE:
        folder, extension = "files", _FILE_TYPES[slot % 2]
    else:
        folder, extension = "private", b".html"
    return b"%b/%b-%b-%d%b" % (lexicon.phrases[folder], head, tail, slot, extension)


class UrlTarget(msgspec.Struct, frozen=True, gc=False):
    """The target of a request: a host's URL space, the kind of URL, and its slot if it has one."""

    space: UrlSpace
    kind: UrlKind
    path: bytes  # of the request, without its first slash
    slot: int = -1
