"""Web pages: a join over tables of bytes.

A page consists of pieces that its draws pick from the lexicon, inside its host's frame (head, navigation, footer),
which is rendered once. A meaningful change rewrites one paragraph, the next one each time around, and every fourth also
the title. In worlds whose links change (`links.changing`) it also moves some links. A cosmetic change affects only the
parts after the page's own content: the advertisement, the proverb, the counter. So the body is a function of the page
and its two counts of changes, and of the session id on hosts that have one. It holds no date that depends on the
world's epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from teia.lab.text.prose import ITEMS, NAMES, PASSAGES, Lexicon
from teia.lab.world.change import WorldPageState
from teia.lab.world.feeds import MEDIA_TYPES
from teia.lab.world.links import PARAGRAPH_DRAWS, LinkGraph, PageLinks, count_around
from teia.lab.world.markup import MARKUPS, Markup
from teia.lab.world.spec import WorldSpec
from teia.lab.world.urlspace import LinkStyle, UrlSpace

FIRST_YEAR = 1998
YEARS = 22
REVISIONS_PER_TITLE = 4
PLAIN = (b"%b", b"%b %b")
CALENDAR_START = b"2020/01"
HEADINGS = ("inside", "related", "elsewhere", "partners")


@dataclass(frozen=True, slots=True)
class PageFrame:
    """The shared parts of all pages of a host, ready to be joined; comments name the arguments of templates."""

    markup: Markup
    top: bytes
    after_title: bytes
    head_end: bytes
    banner: bytes
    navigation: bytes
    headline: bytes  # title, day, month, year
    picture: bytes  # number
    see_also: bytes  # a link
    aside: bytes  # advertisement, proverb
    footer: bytes
    headings: Mapping[str, bytes]  # headings of lists, each with the opening of the list
    nav: tuple[bytes, ...]  # targets of the navigation, paths without their first slash
    canonical: bytes  # the URL of the root that canonical links begin with, or nothing

    def escaped(self, url: bytes) -> bytes:
        return url.replace(b"&", b"&amp;") if self.markup.escapes else url


def make_frame(space: UrlSpace, canonical_root: bytes, shared: dict[bytes, bytes]) -> PageFrame:
    """Render the boilerplate of a host. `shared` makes equal pieces of all hosts one object, to spare the cache."""
    host, lexicon = space.host, space.lexicon
    markup = MARKUPS[host.sloppy]
    charset = markup.charset % host.charset.encode() if host.charset_declared_in != "header" else b""
    title = host.title.encode(lexicon.codec)
    entries = [(space.path(slot), space.title(slot)) for slot in range(host.fronts + 1)]
    entries[0] = b"", lexicon.phrases["home"]
    if host.calendar:
        entries.append((lexicon.phrases["agenda"] + b"/" + CALENDAR_START, lexicon.phrases["calendar"]))
    anchors = markup.between.join(markup.anchor % (b"/" + path, b"", name) for path, name in entries)
    phrases = {name: text.replace(b"%", b"%%") for name, text in lexicon.phrases.items()}  # inside templates
    feed = markup.feed % MEDIA_TYPES[host.feed].encode() if host.feed != "none" else b""

    def one(piece: bytes) -> bytes:
        return shared.setdefault(piece, piece)

    return PageFrame(
        markup=markup,
        top=one(markup.top % (host.language.encode(), charset)),
        after_title=markup.after_title % title,
        head_end=one(feed + markup.head_end),
        banner=markup.banner % title,
        navigation=one(markup.navigation % anchors),
        headline=one(markup.headline % (phrases["by"], phrases["on"])),
        picture=one(markup.picture % (phrases["images"], phrases["photo"])),
        see_also=one(markup.see_also % (phrases["see"], b"%b")),
        aside=one(markup.aside % (phrases["advertisement"], b"%b", b"%b")),
        headings={name: one(markup.list_start % lexicon.phrases[name]) for name in HEADINGS},
        footer=markup.footer % (title, lexicon.phrases["rights"], lexicon.phrases["visits"]),
        nav=tuple(path for path, _ in entries),
        canonical=canonical_root if host.canonical else b"",
    )


def paragraphs(
    lexicon: Lexicon, draws: tuple[int, ...], at: int, count: int, meaningful: int, forms: tuple[bytes, bytes]
) -> list[bytes]:
    """Write the paragraphs of a page after `meaningful` meaningful changes, each of one or two passages.

    Change j rewrites paragraph (j - 1) mod count: its passages move on by an odd number of places in a table of 256, so
    no version of a paragraph equals one of the 255 before it.
    """
    passages = lexicon.passages
    short, long = forms
    end = at + PARAGRAPH_DRAWS * count
    texts = []
    version = meaningful + count - 1  # of the page, counted so that `version // count` is the paragraph's
    for first, second, shape in zip(draws[at:end:3], draws[at + 1 : end : 3], draws[at + 2 : end : 3], strict=True):
        if version >= count:
            rewritten = version // count
            first += rewritten * (first >> 8 | 1)
            second += rewritten * (second >> 8 | 1)
        version -= 1
        if shape & 3:
            texts.append(long % (passages[first % PASSAGES], passages[second % PASSAGES]))
        else:
            texts.append(short % passages[first % PASSAGES])
    return texts


class PageWriter:
    """Writes the pages of a world. `roots` has the URL of every name's home page."""

    def __init__(self, spec: WorldSpec, graph: LinkGraph, roots: Mapping[str, bytes]) -> None:
        self._graph = graph
        self._mean_paragraphs = spec.text.paragraphs
        self._paragraphs_at = graph.layout.paragraphs_at
        self._image_below = int(spec.text.images * 65536)
        self._mail_below = int(spec.text.mail * 65536)
        self._noindex_below = int(spec.robots.noindex * 65536)
        self._nofollow_below = self._noindex_below + int(spec.robots.nofollow * 65536)
        self._roots = roots
        self._styles: dict[tuple[int, bytes], LinkStyle] = {}

    def write(self, space: UrlSpace, frame: PageFrame, slot: int, state: WorldPageState, session: bytes) -> bytes:
        """Return the body of a page in the charset of its host."""
        meaningful, cosmetic, _, _ = state
        draws = self._graph.draws(space, slot)
        path, title = space.reference(slot, meaningful // REVISIONS_PER_TITLE)
        links = self._graph.page_links(space, slot, draws, meaningful)
        style = self._style(space, frame.markup, path, session)
        up, *anchors = space.anchors(style, (space.parent(slot), *links.children, *links.inside))
        inside_at = len(links.children)

        lexicon = space.lexicon
        pieces = [frame.top, title, frame.after_title, frame.markup.description % lexicon.items[draws[6] % ITEMS]]
        if draws[7] < self._nofollow_below and slot >= space.first_leaf:
            pieces.append(frame.markup.robots % (b"noindex" if draws[7] < self._noindex_below else b"nofollow"))
        if frame.canonical:
            pieces.append(frame.markup.canonical % frame.escaped(frame.canonical + path))
        pieces += (frame.head_end, frame.banner, frame.navigation)
        if slot:
            pieces.append(frame.markup.crumbs % up)
        pieces += self._article(lexicon, frame, slot, draws, title, meaningful, space.host.name.encode())
        if links.inside:
            pieces.append(frame.see_also % anchors[inside_at])
        pieces += self._lists(space, frame, style, links, anchors[:inside_at], anchors[inside_at + 1 :])
        advertisement = lexicon.advertisements[(draws[5] + cosmetic) % len(lexicon.advertisements)]
        proverb = lexicon.proverbs[(draws[4] + cosmetic) % len(lexicon.proverbs)]
        counter = b"%d" % (draws[5] + 37 * cosmetic)
        pieces += (frame.aside % (advertisement, proverb), frame.footer, counter, frame.markup.end)
        return _fill_names(b"".join(pieces), lexicon, draws)

    def texts(self, space: UrlSpace, slot: int, meaningful: int) -> list[bytes]:
        """Return title and paragraphs of a page without markup, as its PDF shows them."""
        draws = self._graph.draws(space, slot)
        count = count_around(self._mean_paragraphs, draws[0])
        written = paragraphs(space.lexicon, draws, self._paragraphs_at, count, meaningful, PLAIN)
        title = space.title(slot, meaningful // REVISIONS_PER_TITLE)
        return [_fill_names(text, space.lexicon, draws) for text in (title, *written)]

    def _style(self, space: UrlSpace, markup: Markup, path: bytes, session: bytes) -> LinkStyle:
        """Return the link style of the page at `path`; cached for the other pages of its folder and session."""
        prefix = b"/"
        if space.host.relative:
            prefix = b"../" if b"/" in path.partition(b"?")[0] else b"./"
        style = self._styles.get((space.host.index, prefix))
        if style is None or style.session != session:
            style = self._styles[space.host.index, prefix] = space.style(markup, prefix, session)
        return style

    def _article(
        self,
        lexicon: Lexicon,
        frame: PageFrame,
        slot: int,
        draws: tuple[int, ...],
        title: bytes,
        meaningful: int,
        site: bytes,
    ) -> list[bytes]:
        """Return the page's own text, with a list of facts before its second half."""
        markup, items = frame.markup, lexicon.items
        when, first = draws[3], draws[11] % (ITEMS - 2)
        count = count_around(self._mean_paragraphs, draws[0])
        pieces = paragraphs(lexicon, draws, self._paragraphs_at, count, meaningful, markup.paragraphs)
        subheading = markup.subheading % lexicon.subheadings[draws[4] % len(lexicon.subheadings)]
        facts = markup.facts % (items[first], items[first + 1], items[first + 2])
        pieces.insert(count - count // 2, subheading + facts)
        if draws[10] < self._image_below:
            pieces.insert(0, frame.picture % slot)
        if draws[6] < self._mail_below:
            address = b"author%d@%b" % (draws[2] % NAMES, site)
            pieces.append(markup.paragraphs[0] % (markup.anchor % (b"mailto:" + address, b"", address)))
        date = (when % 28 + 1, lexicon.months[when // 28 % 12], FIRST_YEAR + when // 336 % YEARS)
        pieces.insert(0, frame.headline % (title, *date))
        return pieces

    def _lists(
        self,
        space: UrlSpace,
        frame: PageFrame,
        style: LinkStyle,
        links: PageLinks,
        children: list[bytes],
        related: list[bytes],
    ) -> list[bytes]:
        """Return the links: to the pages below, across the host, to other hosts."""
        markup, headings, between = frame.markup, frame.headings, frame.markup.between
        pieces: list[bytes] = []
        if children:
            pieces += (headings["inside"], between.join(children), markup.list_end)
        if links.nofollow is not None:
            related.append(space.anchor(markup, links.nofollow, style.prefix, style.session, markup.nofollow))
        if related:
            pieces += (headings["related"], between.join(related), markup.list_end)
        if links.outside:
            anchors = self._outside_anchors(space.lexicon.codec, frame, links)
            pieces += (headings["elsewhere"], between.join(anchors), markup.list_end)
        if links.partners:
            anchors = [markup.anchor % (self._roots[name], b"", name.encode()) for name in links.partners]
            pieces += (headings["partners"], between.join(anchors), markup.list_end)
        return pieces

    def _outside_anchors(self, codec: str, frame: PageFrame, links: PageLinks) -> list[bytes]:
        roots, markup = self._roots, frame.markup
        found = []
        for link in links.outside:
            path, title = link.space.reference(link.slot)
            there = link.space.lexicon.codec
            if there != codec:
                title = title.decode(there).encode(codec)
            url = roots[link.name] + path
            if markup.escapes:
                url = url.replace(b"&", b"&amp;")
            found.append(markup.anchor % (url, markup.nofollow if link.nofollow else b"", title))
        return found


def _fill_names(text: bytes, lexicon: Lexicon, draws: tuple[int, ...]) -> bytes:
    """Insert the page's own place and person into the placeholders of the tables."""
    return text.replace(b"\x01", lexicon.places[draws[1] % NAMES]).replace(b"\x02", lexicon.people[draws[2] % NAMES])
