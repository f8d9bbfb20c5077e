"""The merging and choosing of a page's links in readable form: what the compiled loop (_links.pyx) must give."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from itertools import groupby
from operator import itemgetter
from typing import Any

from teia.crawler.child.messages import HostLinks, LinkFields
from teia.crawler.links import _BY_KIND, _LINKS, FrontierUrl, LinkRefusal, NamedUrl
from teia.frontier.cell.schema import BY_REQUISITE
from teia.records import Link

Check = Callable[[str], Any]


def evaluated(
    links: Iterable[Link], check_link: Check, check_requisite: Check, *, obeys: bool, too_deep: bool
) -> list[NamedUrl]:
    found = []
    for url, (times, text, by) in merged(links, obeys=obeys).items():
        is_requisite = bool(by & BY_REQUISITE)
        decision = check_requisite(url) if is_requisite else check_link(url)
        if too_deep and not is_requisite and isinstance(decision, FrontierUrl):
            decision = LinkRefusal.OUT_OF_SCOPE
        found.append((times, text, by & ~_LINKS, decision, by >= _LINKS))
    return found


def merged(links: Iterable[Link], *, obeys: bool) -> dict[str, tuple[int, str, int]]:
    once: dict[str, tuple[int, str, int]] = {}
    unendorsed: dict[str, tuple[int, str, int]] = {}
    for url, kind, text, nofollow in links:
        names = unendorsed if nofollow and obeys else once
        times, first, by = names.get(url, (0, "", 0))
        names[url] = (times + 1, first or text, by | _BY_KIND[kind.value])
    for url in unendorsed.keys() & once.keys():
        (times, text, by), (_, also, also_by) = once[url], unendorsed[url]
        once[url] = (times, text or also, by | also_by & ~_LINKS)
    return once


def chosen(named: Iterable[NamedUrl], also: int) -> tuple[list[LinkFields], int, int, dict[str, int]]:
    found: list[LinkFields] = []
    unindexable = out_of_scope = 0
    traps: dict[str, int] = {}
    for times, text, by, decision, links_to in named:
        if isinstance(decision, FrontierUrl):
            found.append((*decision, times if links_to else 0, text, by | also))
        elif decision is LinkRefusal.UNINDEXABLE:
            unindexable += times
        else:
            out_of_scope += times
            if isinstance(decision, str):
                traps[decision] = traps.get(decision, 0) + times
    return found, unindexable, out_of_scope, traps


def columns(links: Iterable[LinkFields]) -> list[HostLinks]:
    found = []
    for host, run in groupby(links, itemgetter(0)):
        _, keys, tails, counts, _, by = zip(*run, strict=True)
        found.append(HostLinks(host, array("q", keys).tobytes(), list(tails), bytes(by), bytes(map(bool, counts))))
    return found
