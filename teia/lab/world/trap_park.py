"""A trap park: all known kinds of crawler traps, around the pages of an ordinary host.

Every page of a host with a park ends in links into it. The traps:

    calendar   months before and after, and their days, without end; `?day=` beside them
    list       `?page=n`: the first pages list the site, then empty pages follow without end
    growth     relative links that make the path longer each time they are followed
    session    the site's own pages with a session id in the path or the query, another one in every link
    facets     20 filters that can be set and unset: 2^20 URLs with the same goods in other orders
    parameters the site's own pages with meaningless parameters, in every order and several times
    maze       made-up words, in paths and in texts that occur nowhere else; each page leads to eight more
    spelling   the site's own pages in capitals, and its folders as index.html

Like everything in a world, the answer of a URL depends on nothing but the URL. `trap_at` classifies a path, so the
server's log shows the requests that a crawler spent here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from teia.lab.world.draws import below, bits64
from teia.lab.world.endless_calendar import Month
from teia.lab.world.pages import PageFrame
from teia.lab.world.urlspace import UrlSpace

FACETS = 20
LISTED_PAGES = 8
LINKS_OF_A_LIST = 10
WAYS_OF_A_MAZE = 8
WORDS_OF_A_MAZE = 120
GOODS = 6

_MONTH = re.compile(rb"calendar/([0-9]{4,9})/(0[1-9]|1[0-2])")
_DAY = re.compile(rb"calendar/([0-9]{4,9})/(0[1-9]|1[0-2])/([0-3][0-9])")
_SESSION = re.compile(rb"s/([0-9a-f]{32})/(.*)")
_NUMBER = re.compile(rb"(?:^|&)page=([0-9]{1,12})")
_FACET = re.compile(rb"f([0-9]{1,2})=1")
_GROWING = re.compile(rb"(?:^|/)(?:more/photos/)+$")
_SYLLABLES = tuple(first + second for first in "bcdfglmnprstvz" for second in "aeio")


class Trap(StrEnum):
    """The kinds of traps."""

    CALENDAR = "calendar"
    LIST = "list"
    GROWTH = "growth"
    SESSION = "session"
    FACETS = "facets"
    PARAMETERS = "parameters"
    MAZE = "maze"
    SPELLING = "spelling"


@dataclass(frozen=True, slots=True)
class TrapUrl:
    """A URL of a park: its trap, and the slot of the page it shows, if it shows one.

    `is_wanted`: a good crawler would request it: the pages of the list that list something, the shop's front.
    """

    trap: Trap
    slot: int = -1
    is_wanted: bool = False


def trap_at(space: UrlSpace, path: bytes) -> TrapUrl | None:
    """Classify a path (without its first slash) of a host with a park; None if it is not part of the park."""
    name, _, query = path.partition(b"?")
    if _MONTH.fullmatch(name) or _DAY.fullmatch(name):
        return TrapUrl(Trap.CALENDAR)
    if name == b"list":
        return TrapUrl(Trap.LIST, is_wanted=_number(path) <= LISTED_PAGES)
    if name == b"shop":
        return TrapUrl(Trap.FACETS, is_wanted=not query)
    if name.startswith(b"maze/"):
        return TrapUrl(Trap.MAZE)
    if _GROWING.search(name):
        return TrapUrl(Trap.GROWTH)
    session = _SESSION.fullmatch(name)
    slot = space.find(session.group(2) if session else name)
    if slot is not None:
        if session or b"token=" in query:
            return TrapUrl(Trap.SESSION, slot)
        return TrapUrl(Trap.PARAMETERS, slot) if query else None
    slot = space.find(name.lower().removesuffix(b"index.html"))
    return None if slot is None else TrapUrl(Trap.SPELLING, slot)


# ---- links into the park --------------------------------------------------------------------------------------------


def entrances(space: UrlSpace, slot: int) -> list[bytes]:
    """Return the links of a slot's page into the park; paths from the root, or relative ones."""
    other, third = (below(space.size, space.host.salt, "park", slot, n) for n in (1, 2))
    page, another = space.path(other), space.path(third)
    folder = page.rpartition(b"/")[0]
    return [
        b"/calendar/2024/05",
        b"/list?page=1",
        b"more/photos/",
        b"/s/%b/%b" % (_token(space, slot, 1), page),
        b"/%b?token=%b" % (another, _token(space, slot, 2)),
        b"/shop",
        b"/%b?%b" % (page, _shuffled(slot)),
        b"/maze/%b" % _way(space, b"%d" % slot, 0),
        b"/" + another.upper(),
        b"/%b/index.html" % folder if folder else b"/index.html",
    ]


def add_entrances(body: bytes, space: UrlSpace, frame: PageFrame, slot: int) -> bytes:
    """Return a page of the host with its links into the park added before its end."""
    end = frame.markup.end
    anchors = [frame.markup.anchor % (frame.escaped(url), b"", b"more") for url in entrances(space, slot)]
    return b"%b%b%b" % (body.removesuffix(end), b" ".join(anchors), end)


def add_session_ids(body: bytes, space: UrlSpace, path: bytes) -> bytes:
    """Return a page of the host whose links all carry a session id, different from that of the request."""
    token = _token(space, bits64(path.decode("latin-1")), 3)
    return re.sub(rb"(<a href=[\"']?)/", rb"\g<1>/s/%b/" % token, body, flags=re.IGNORECASE)


def _token(space: UrlSpace, *key: int) -> bytes:
    return b"%016x%016x" % (bits64(space.host.salt, "token", *key, 1), bits64(space.host.salt, "token", *key, 2))


def _shuffled(slot: int) -> bytes:
    """Return four parameters in an order that depends on the page; on odd slots one of them is repeated."""
    names = [b"colour=blue", b"size=m", b"sort=name", b"view=list"]
    order = sorted(range(len(names)), key=lambda n: bits64("order", slot, n))
    chosen = [names[n] for n in order]
    return b"&".join([*chosen, chosen[0]] if slot % 2 else chosen)


# ---- pages of the park ----------------------------------------------------------------------------------------------


def park_page(space: UrlSpace, frame: PageFrame, trap: Trap, path: bytes) -> bytes:
    """Write a page that belongs to the park itself."""
    title, text, links = _PAGES[trap](space, path)
    markup, lexicon = frame.markup, space.lexicon
    anchors = markup.between.join(markup.anchor % (frame.escaped(url), b"", name) for url, name in links)
    pieces = (
        frame.top, title, frame.after_title, frame.head_end, frame.banner, frame.navigation, markup.subheading % title,
        markup.paragraphs[0] % text, markup.list_start % b"", anchors, markup.list_end,
        markup.aside % (lexicon.phrases["advertisement"], lexicon.advertisements[0], lexicon.proverbs[0]),
        frame.footer, b"0", markup.end,
    )  # fmt: skip
    return b"".join(pieces).replace(b"\x01", b"").replace(b"\x02", b"")


Links = list[tuple[bytes, bytes]]
Written = tuple[bytes, bytes, Links]
"""Title, text, and (URL, words) of each link."""


def _calendar(_space: UrlSpace, path: bytes) -> Written:
    name = path.partition(b"?")[0]
    day, found = _DAY.fullmatch(name), _MONTH.fullmatch(name[:-3]) or _MONTH.fullmatch(name)
    assert found is not None
    month = Month(b"calendar", int(found.group(1)), int(found.group(2)))
    count_around = [(b"/" + each.path, b"%d/%d" % (each.month, each.year)) for each in month.neighbours]
    if day:
        return (
            b"%d-%02d-%b" % (month.year, month.month, day.group(3)),
            b"There are no events on this day.",
            count_around,
        )
    days = [(b"/%b/%02d" % (month.path, n), b"%d" % n) for n in range(1, 29)]
    return b"%d/%d" % (month.month, month.year), b"There are no events in this month.", [*count_around, *days]


def _list(space: UrlSpace, path: bytes) -> Written:
    number = _number(path)
    links: Links = [(b"/list?page=%d" % (number + step), b"page %d" % (number + step)) for step in (1, 2, 5)]
    if number > LISTED_PAGES:
        return b"Page %d" % number, b"There is nothing more to show.", links
    slots = range((number - 1) * LINKS_OF_A_LIST, min(number * LINKS_OF_A_LIST, space.size))
    return (
        b"Page %d" % number,
        b"The site, page by page.",
        [(b"/" + space.path(s), space.title(s)) for s in slots] + links,
    )


def _number(path: bytes) -> int:
    match = _NUMBER.search(path.partition(b"?")[2])
    return int(match.group(1)) if match else 1


def _growth(_space: UrlSpace, _path: bytes) -> Written:
    return b"Photos", b"More photos can be found below.", [(b"more/photos/", b"more"), (b"photos/more/photos/", b"all")]


def _facets(space: UrlSpace, path: bytes) -> Written:
    chosen = {int(n) for n in _FACET.findall(path.partition(b"?")[2]) if int(n) < FACETS}
    links: Links = []
    for facet in range(FACETS):
        others = sorted(chosen ^ {facet})
        links.append((b"/shop?" + b"&".join(b"f%d=1" % n for n in others), b"filter %d" % facet))
    items = space.lexicon.items
    first = bits64("goods", sorted(chosen))
    goods = b" ".join(items[(first >> 8 * n) % len(items)] for n in range(GOODS))
    return b"Shop", goods, links


def _maze(space: UrlSpace, path: bytes) -> Written:
    text = " ".join(_word(space, path, n) for n in range(WORDS_OF_A_MAZE)).capitalize() + "."
    links = [(b"/maze/" + _way(space, path, way), b"a way") for way in range(WAYS_OF_A_MAZE)]
    return _word(space, path, -1).capitalize().encode(), text.encode(), links


def _way(space: UrlSpace, origin: bytes, way: int) -> bytes:
    words = [_word(space, origin, -10 * way - n) for n in (11, 12, 13)]
    return "/".join(words[: 1 + below(3, space.host.salt, origin, way)]).encode()


def _word(space: UrlSpace, *key: object) -> str:
    bits = bits64(space.host.salt, "word", *key)
    return "".join(_SYLLABLES[(bits >> 8 * n) % len(_SYLLABLES)] for n in range(3 + bits % 3))


_PAGES: dict[Trap, Callable[[UrlSpace, bytes], Written]] = {
    Trap.CALENDAR: _calendar,
    Trap.LIST: _list,
    Trap.GROWTH: _growth,
    Trap.FACETS: _facets,
    Trap.MAZE: _maze,
}
