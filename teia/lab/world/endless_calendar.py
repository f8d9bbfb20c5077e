"""A calendar without end: a month links to the next and the one before, as long as a crawler follows (A8)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from teia.lab.world.links import LinkGraph
from teia.lab.world.pages import PageFrame
from teia.lab.world.urlspace import UrlSpace

_MONTH = re.compile(rb"([0-9]{4,9})/(0[1-9]|1[0-2])(?:\?|$)")


@dataclass(frozen=True, slots=True)
class Month:
    """One page of the calendar, as its path names it: `agenda/2020/01`."""

    folder: bytes
    year: int
    month: int

    @property
    def path(self) -> bytes:
        return b"%b/%04d/%02d" % (self.folder, self.year, self.month)

    def after(self, months: int) -> Month:
        """Return another month; there is none before the first of year 0."""
        count = max(0, self.year * 12 + self.month - 1 + months)
        return Month(self.folder, count // 12, count % 12 + 1)

    @property
    def neighbours(self) -> tuple[Month, ...]:
        return (self.after(-1), self.after(1), self.after(12))


def find_month(space: UrlSpace, target: bytes) -> Month | None:
    """Return the month that a request target stands for, on hosts that have a calendar."""
    folder, _, rest = target.partition(b"/")
    if not space.host.calendar or folder != space.lexicon.phrases["agenda"]:
        return None
    match = _MONTH.fullmatch(rest.partition(b"?")[0])
    return Month(folder, int(match.group(1)), int(match.group(2))) if match else None


def month_page(space: UrlSpace, frame: PageFrame, graph: LinkGraph, month: Month) -> bytes:
    """Write the page of a month: the usual frame around three links."""
    lexicon, markup = space.lexicon, frame.markup
    name = b"%b %d" % (lexicon.months[month.month - 1], month.year)
    draws = graph.draws(space, -1 - month.year * 12 - month.month)
    anchors = markup.between.join(
        markup.anchor % (b"/" + other.path, b"", b"%b %d" % (lexicon.months[other.month - 1], other.year))
        for other in month.neighbours
    )
    pieces = (
        frame.top, name, frame.after_title, frame.head_end, frame.banner, frame.navigation, markup.subheading % name,
        markup.facts % tuple(lexicon.items[number % len(lexicon.items)] for number in draws[:3]),
        markup.list_start % lexicon.phrases["calendar"], anchors, markup.list_end,
        markup.aside % (lexicon.phrases["advertisement"], lexicon.advertisements[0], lexicon.proverbs[0]),
        frame.footer, b"0", markup.end,
    )  # fmt: skip
    place, person = lexicon.places[draws[1] % len(lexicon.places)], lexicon.people[draws[2] % len(lexicon.people)]
    return b"".join(pieces).replace(b"\x01", place).replace(b"\x02", person)
