"""Web pages: a join over tables of bytes.

A page is what its draws pick from the lexicon, inside its host's frame (head, navigation, footer), which is rendered
once. A meaningful change rewrites one paragraph, the next one each time around, and every fourth also the title. A
cosmetic change touches only what stands after the page's own content: the advertisement, the proverb, the counter.
So the body is a function of the page and its two counts of changes, and of nothing else but the session id on hosts
that have one. It holds no date that depends on when the world began.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from teia.lab.change import State
from teia.lab.feeds import MEDIA_TYPES
from teia.lab.links import PARAGRAPH_DRAWS, LinkGraph, Outside, PageLinks, around
from teia.lab.markup import MARKUPS, Markup
from teia.lab.prose import ITEMS, NAMES, PASSAGES, Lexicon
from teia.lab.spec import WorldSpec
from teia.lab.urlspace import UrlSpace, with_session

FIRST_YEAR = 1998
YEARS = 22
REVISIONS_PER_TITLE = 4
PLAIN = (b"%b", b"%b %b")
CALENDAR_START = b"2020/01"
HEADINGS = ("inside", "related", "elsewhere", "partners")


@dataclass(frozen=True, slots=True)
class Frame:
    """What all pages of a host share, ready to be joined."""

    markup: Markup
    top: bytes
    after_title: bytes
    head_end: bytes
    banner: bytes
    navigation: bytes
    footer: bytes
    headings: Mapping[str, bytes]  # of lists, each with what opens the list
    nav: tuple[bytes, ...]  # targets of the navigation, paths without their first slash
    canonical: bytes  # the URL of the root that canonical links begin with, or nothing

    def escaped(self, url: bytes) -> bytes:
        return url.replace(b"&", b"&amp;") if self.markup.escapes else url


def make_frame(space: UrlSpace, canonical_root: bytes, shared: dict[bytes, bytes]) -> Frame:
    """Render the boilerplate of a host. `shared` makes equal pieces of all hosts one object, to spare the cache."""
    host, lexicon = space.host, space.lexicon
    markup = MARKUPS[host.sloppy]
    told = markup.charset % host.charset.encode() if host.charset_told_by != "header" else b""
    title = host.title.encode(lexicon.codec)
    entries = [(space.path(slot), space.title(slot)) for slot in range(host.fronts + 1)]
    entries[0] = b"", lexicon.phrases["home"]
    if host.calendar:
        entries.append((lexicon.phrases["agenda"] + b"/" + CALENDAR_START, lexicon.phrases["calendar"]))
    anchors = markup.between.join(markup.anchor % (b"/" + path, b"", name) for path, name in entries)
    feed = markup.feed % MEDIA_TYPES[host.feed].encode() if host.feed != "none" else b""

    def one(piece: bytes) -> bytes:
        return shared.setdefault(piece, piece)

    return Frame(
        markup=markup,
        top=one(markup.top % (host.language.encode(), told)),
        after_title=markup.after_title % title,
        head_end=one(feed + markup.head_end),
        banner=markup.banner % title,
        navigation=one(markup.navigation % anchors),
        headings={name: one(markup.list_start % lexicon.phrases[name]) for name in HEADINGS},
        footer=markup.footer % (title, lexicon.phrases["rights"], lexicon.phrases["visits"]),
        nav=tuple(path for path, _ in entries),
        canonical=canonical_root if host.canonical else b"",
    )


def paragraphs(
    lexicon: Lexicon, draws: tuple[int, ...], at: int, count: int, meaningful: int, forms: tuple[bytes, bytes]
) -> list[bytes]:
    """Write the paragraphs of a page after so many meaningful changes, each of one or two passages.

    Change j rewrites paragraph (j - 1) mod count: its passages move on by an odd number of places in a table of 256, so
    no version of a paragraph equals one of the 255 before it.
    """
    passages = lexicon.passages
    short, long = forms
    texts = []
    for index in range(count):
        first, second, shape = draws[at : at + PARAGRAPH_DRAWS]
        at += PARAGRAPH_DRAWS
        rewritten = (meaningful + count - 1 - index) // count
        if rewritten:
            first += rewritten * (first >> 8 | 1)
            second += rewritten * (second >> 8 | 1)
        if shape & 3:
            texts.append(long % (passages[first % PASSAGES], passages[second % PASSAGES]))
        else:
            texts.append(short % passages[first % PASSAGES])
    return texts


class Draft(NamedTuple):
    """A page being written: where it is, what chance said of it, and its links, the simple ones already rendered."""

    space: UrlSpace
    frame: Frame
    slot: int
    draws: tuple[int, ...]
    links: PageLinks
    prefix: bytes
    session: bytes
    parent: bytes
    children: list[bytes]
    inside: list[bytes]


class PageWriter:
    """Writes the pages of a world. `roots` has the URL of every name's home page."""

    def __init__(self, spec: WorldSpec, graph: LinkGraph, roots: Mapping[str, bytes]) -> None:
        self._graph = graph
        self._mean_paragraphs = spec.text.paragraphs
        self._paragraphs_at = graph.layout.paragraphs_at
        self._image_below = int(spec.text.images * 65536)
        self._noindex_below = int(spec.robots.noindex * 65536)
        self._nofollow_below = self._noindex_below + int(spec.robots.nofollow * 65536)
        self._roots = roots

    def write(self, space: UrlSpace, frame: Frame, slot: int, state: State, session: bytes) -> bytes:
        """Return the body of a page in the charset of its host."""
        draws = self._graph.draws(space, slot)
        path = space.path(slot) if frame.canonical or space.host.relative else b""
        title = space.title(slot, state.meaningful // REVISIONS_PER_TITLE)
        links = self._graph.of_page(space, slot, draws)
        prefix = _prefix(space, path)
        targets = (space.parent(slot), *links.children, *links.inside)
        anchors = space.anchors(frame.markup, targets, prefix, session)
        split = 1 + len(links.children)
        rendered = (anchors[0], anchors[1:split], anchors[split:])
        draft = Draft(space, frame, slot, draws, links, prefix, session, *rendered)
        pieces = self._head(draft, title, path)
        pieces += self._article(draft, title, state.meaningful)
        pieces += self._lists(draft)
        pieces += self._ending(draft, state.cosmetic)
        return _named(b"".join(pieces), space.lexicon, draws)

    def texts(self, space: UrlSpace, slot: int, meaningful: int) -> list[bytes]:
        """Return title and paragraphs of a page without markup, as its PDF shows them."""
        draws = self._graph.draws(space, slot)
        count = around(self._mean_paragraphs, draws[0])
        written = paragraphs(space.lexicon, draws, self._paragraphs_at, count, meaningful, PLAIN)
        title = space.title(slot, meaningful // REVISIONS_PER_TITLE)
        return [_named(text, space.lexicon, draws) for text in (title, *written)]

    def _head(self, draft: Draft, title: bytes, path: bytes) -> list[bytes]:
        space, frame, slot, draws = draft[:4]
        markup = frame.markup
        pieces = [frame.top, title, frame.after_title]
        pieces.append(markup.description % space.lexicon.items[draws[6] % ITEMS])
        if slot >= space.first_leaf and draws[7] < self._nofollow_below:
            pieces.append(markup.robots % (b"noindex" if draws[7] < self._noindex_below else b"nofollow"))
        if frame.canonical:
            pieces.append(markup.canonical % frame.escaped(frame.canonical + path))
        pieces += (frame.head_end, frame.banner, frame.navigation)
        return pieces

    def _article(self, draft: Draft, title: bytes, meaningful: int) -> list[bytes]:
        space, frame, slot, draws = draft[:4]
        lexicon, markup, phrases = space.lexicon, frame.markup, space.lexicon.phrases
        pieces = []
        if slot:
            pieces.append(markup.crumbs % draft.parent)
        when = draws[3]
        date = (when % 28 + 1, lexicon.months[when // 28 % 12], FIRST_YEAR + when // 336 % YEARS)
        pieces.append(markup.headline % (title, phrases["by"], phrases["on"], *date))
        if draws[10] < self._image_below:
            pieces.append(markup.picture % (phrases["images"], slot, phrases["photo"]))
        count = around(self._mean_paragraphs, draws[0])
        pieces += paragraphs(lexicon, draws, self._paragraphs_at, count, meaningful, markup.paragraphs)
        items, first = lexicon.items, draws[11] % (ITEMS - 2)
        facts = markup.facts % (items[first], items[first + 1], items[first + 2])
        subheading = markup.subheading % lexicon.subheadings[draws[4] % len(lexicon.subheadings)]
        pieces.insert(len(pieces) - count // 2, subheading + facts)
        if draft.inside:
            pieces.append(markup.see_also % (phrases["see"], draft.inside[0]))
        return pieces

    def _lists(self, draft: Draft) -> list[bytes]:
        """The links: to the pages below, across the host, to other hosts."""
        links, markup, headings = draft.links, draft.frame.markup, draft.frame.headings
        related = draft.inside[1:]
        if links.nofollow is not None:
            path, title = draft.space.reference(links.nofollow)
            url = draft.frame.escaped(draft.prefix + with_session(path, draft.session))
            related.append(markup.anchor % (url, markup.nofollow, title))
        pieces: list[bytes] = []
        if draft.children:
            pieces += (headings["inside"], markup.between.join(draft.children), markup.list_end)
        if related:
            pieces += (headings["related"], markup.between.join(related), markup.list_end)
        if links.outside:
            anchors = [self._outside_anchor(draft, link) for link in links.outside]
            pieces += (headings["elsewhere"], markup.between.join(anchors), markup.list_end)
        if links.partners:
            anchors = [markup.anchor % (self._roots[name], b"", name.encode()) for name in links.partners]
            pieces += (headings["partners"], markup.between.join(anchors), markup.list_end)
        return pieces

    def _outside_anchor(self, draft: Draft, link: Outside) -> bytes:
        path, anchor = link.space.reference(link.slot)
        here, there = draft.space.lexicon.codec, link.space.lexicon.codec
        if here != there:
            anchor = anchor.decode(there).encode(here)
        markup = draft.frame.markup
        url = draft.frame.escaped(self._roots[link.name] + path)
        return markup.anchor % (url, markup.nofollow if link.nofollow else b"", anchor)

    @staticmethod
    def _ending(draft: Draft, cosmetic: int) -> tuple[bytes, ...]:
        lexicon, frame, draws = draft.space.lexicon, draft.frame, draft.draws
        advertisement = lexicon.advertisements[(draws[5] + cosmetic) % len(lexicon.advertisements)]
        proverb = lexicon.proverbs[(draws[4] + cosmetic) % len(lexicon.proverbs)]
        aside = frame.markup.aside % (lexicon.phrases["advertisement"], advertisement, proverb)
        return aside, frame.footer, b"%d" % (draws[5] + 37 * cosmetic), frame.markup.end


def _prefix(space: UrlSpace, path: bytes) -> bytes:
    """What stands before the path of a link on this page."""
    if not space.host.relative:
        return b"/"
    return b"../" if b"/" in path.partition(b"?")[0] else b"./"


def _named(text: bytes, lexicon: Lexicon, draws: tuple[int, ...]) -> bytes:
    """Put the page's own place and person where the tables left room for them."""
    return text.replace(b"\x01", lexicon.places[draws[1] % NAMES]).replace(b"\x02", lexicon.people[draws[2] % NAMES])
