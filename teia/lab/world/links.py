"""The links between pages, computed from a page's draws, in the order the page shows them.

Besides the tree of its host a page has links to other pages of the host and to other hosts. Their targets follow a
power law: `int(size * u ** power)` hits the low numbers most often, which are the pages near the root and the large
hosts. A home page links to the hosts below its own in the tree of hosts, to mirrors, and to dead names.

Links inside and outside may change: a share of them (`links.changing`) leads to another page of the same host with
every meaningful change of the page that has them. The links of the trees stay, so every page stays reachable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct

import msgspec

from teia.lab.world.draws import uint16s
from teia.lab.world.hosts import BRANCHES, DeadName
from teia.lab.world.spec import WorldSpec
from teia.lab.world.url_kinds import UrlKind
from teia.lab.world.urlspace import UrlSpace

FIXED_DRAWS = 13
PARAGRAPH_DRAWS = 3
OUTSIDE_DRAWS = 3


class OutsideLink(msgspec.Struct, frozen=True, gc=False):
    """A link to a page of another host, under one of its names."""

    name: str
    space: UrlSpace
    slot: int
    nofollow: bool


class PageLinks(msgspec.Struct, frozen=True, gc=False):
    """The page's own links; those of the navigation belong to the host."""

    children: list[int]
    inside: list[int]
    nofollow: int | None  # the last inside link, if it is nofollow
    outside: list[OutsideLink]
    partners: list[str]  # names of hosts, on home pages


@dataclass(frozen=True, slots=True)
class Layout:
    """Positions of a page's random numbers: first the fixed ones, then links, then paragraphs."""

    numbers: Struct
    most_paragraphs: int
    most_inside: int
    most_outside: int

    @property
    def outside_at(self) -> int:
        return FIXED_DRAWS + self.most_inside

    @property
    def paragraphs_at(self) -> int:
        return self.outside_at + self.most_outside * OUTSIDE_DRAWS

    @classmethod
    def from_spec(cls, spec: WorldSpec) -> Layout:
        paragraphs, inside, outside = (
            mean + mean // 2 for mean in (spec.text.paragraphs, spec.links.inside, spec.links.outside)
        )
        count = FIXED_DRAWS + inside + outside * OUTSIDE_DRAWS + paragraphs * PARAGRAPH_DRAWS
        return cls(Struct(f"<{count}H"), paragraphs, inside, outside)


def count_around(mean: int, number: int) -> int:
    """Turn 16 bits into a count between half the mean and one and a half times the mean."""
    low = mean - mean // 2
    return low + number * (mean // 2 * 2 + 1) // 65536


class LinkGraph:
    """All links of a world; nothing is kept per page."""

    def __init__(self, spec: WorldSpec, spaces: Sequence[UrlSpace], dead: Sequence[DeadName]) -> None:
        self.layout = Layout.from_spec(spec)
        self._inside, self._outside = spec.links.inside, spec.links.outside
        self._nofollow_below = round(spec.links.nofollow * 65536)
        self._changing_below = round(spec.links.changing * 65536)
        self._same_topic_below = int(spec.links.same_topic * 256) << 8
        self._spaces = spaces
        self._keys = [b"%d page %d " % (spec.seed, space.content) for space in spaces]
        self._originals = sum(not space.host.is_mirror for space in spaces)
        self._dead = dead
        self._by_topic: dict[str, list[UrlSpace]] = {}
        for space in spaces:
            self._by_topic.setdefault(space.host.topic, []).append(space)
        # A host that is alone with its topic links to all other hosts.
        same_topic = (self._by_topic[space.host.topic] for space in spaces)
        self._same_topic = [group if len(group) > 1 else spaces for group in same_topic]
        self._power = spec.links.power
        self._numbers, self._outside_at = self.layout.numbers, self.layout.outside_at

    def draws(self, space: UrlSpace, slot: int) -> tuple[int, ...]:
        """Return the random numbers of a page: its links and all else about it that is random."""
        return uint16s(self._numbers, b"%b%d" % (self._keys[space.host.index], slot))

    def page_links(self, space: UrlSpace, slot: int, draws: tuple[int, ...], meaningful: int = 0) -> PageLinks:
        """Return the links of a page from its draws, after `meaningful` meaningful changes."""
        size, power = space.size, self._power
        numbers: Sequence[int] = draws[FIXED_DRAWS : FIXED_DRAWS + count_around(self._inside, draws[8])]
        if meaningful and self._changing_below:
            numbers = [self._shift_number(number, meaningful) for number in numbers]
        inside = [int(size * (number / 65536) ** power) for number in numbers]
        if space.has_orphans:
            inside = space.linkables(inside)
        nofollow = inside.pop() if len(inside) > 1 and draws[12] < self._nofollow_below * len(inside) else None
        outside = self._outside_links(space, draws, meaningful) if self._outside and len(self._spaces) > 1 else []
        partners = self._partners(space.content) if slot == 0 else []
        return PageLinks(space.children(slot), inside, nofollow, outside, partners)

    def redirect(self, space: UrlSpace, slot: int, draws: tuple[int, ...], *, chained: bool) -> OutsideLink:
        """Return the target of a redirect: a live page here or on another host, or the next redirect of this host."""
        if chained:
            for other in range(slot + 1, min(slot + 65, space.size)):
                if space.kind(other) in {UrlKind.MOVED, UrlKind.FOUND}:
                    return OutsideLink(space.host.name, space, other, False)
        target, name = space, space.host.name
        if draws[4] < 16384 and len(self._spaces) > 1:
            target = self._pick_host(space, draws[5], draws[6])
            name = target.host.name
        return OutsideLink(name, target, target.live(int(target.size * (draws[7] / 65536) ** self._power)), False)

    def _shift_number(self, number: int, meaningful: int) -> int:
        """Return the number of a link's target after `meaningful` changes of its page; only changing links move."""
        if number * 40_503 % 65_536 >= self._changing_below:
            return number
        return (number + meaningful * 26_511) % 65_536

    def _outside_links(self, space: UrlSpace, draws: tuple[int, ...], meaningful: int) -> list[OutsideLink]:
        found = []
        power, below, first = self._power, self._nofollow_below, self._outside_at
        for at in range(first, first + OUTSIDE_DRAWS * count_around(self._outside, draws[9]), OUTSIDE_DRAWS):
            traits = draws[at + 2]
            target = self._pick_host(space, draws[at], traits)
            number = draws[at + 1]
            if meaningful and self._changing_below:
                number = self._shift_number(number, meaningful)
            page = int(target.size * (number / 65536) ** power)
            if target.has_orphans:
                page = target.linkable(page)
            found.append(OutsideLink(target.names[traits & 1], target, page, traits < below))
        return found

    def _pick_host(self, space: UrlSpace, number: int, traits: int) -> UrlSpace:
        """Return another host by its size, often one of the same topic."""
        candidates = self._same_topic[space.host.index] if traits < self._same_topic_below else self._spaces
        index = int(len(candidates) * (number / 65536) ** self._power)
        target = candidates[index]
        # A mirror must show the links of its original, so a host links neither to itself nor to its mirror.
        return target if target.content != space.content else candidates[(index + 1) % len(candidates)]

    def _partners(self, content: int) -> list[str]:
        first = BRANCHES * content + 1
        names = [space.host.name for space in self._spaces[first : first + BRANCHES]]
        return names + [dead.name for dead in self._dead[content :: self._originals]]
