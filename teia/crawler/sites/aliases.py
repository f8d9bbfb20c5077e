"""Two names of one site, recognised by their pages and then treated as one (A7).

Recognition sends no requests of its own: it uses pages that are fetched anyway.

  1  A sample of each host's pages, the first ones and those at paths that are sampled everywhere, is compared with
     that of other hosts of its site, or at its address. A host with the same page at the same path, or with the
     same name but for `www.`, and with no other robots.txt, is *watched*. An address alone is no reason: many
     sites may share it.
  2  Each page that both names have is compared (`compare_pages`). Three that disagree make them distinct for good.
  3  When enough agree, robots.txt is the same and the home pages were compared too, one name is an *alias* of the
     other. If only the home pages are missing, they are queued: at most two requests beyond the normal crawl.
  4  Where `WILDCARD` names of a site are aliases of one, its names are made up, and the next needs one equal page.

Afterwards a URL of the alias stands for the same path of the main name. Links to it are rewritten where they come in
(`rewrite`). Queued URLs are settled as `alias` when they are due and handed on (`forward`), without a request;
links that were counted for them stay counted there until their pages are read again. Every `sites.alias_check_s`, if
pages still link to the alias, two pages that proved it are fetched under both names once more; if one disagrees the
names are distinct again and the alias' URLs are queued again.

Recognition runs in the commit thread, on cells that this process has open, after the pages are committed. Evidence and
decisions are rows of the cells (alias_evidence.py). A crash between the two loses the evidence of the last group of
pages, never a decision.

On a node of a cluster only names of one site are compared: they are in one cell, which one node owns, while another
site may be another node's. Decisions of other nodes are in `elsewhere`; they rewrite links, and nothing else.

The event loop receives the decisions with a commit (`AliasNames`). From then on the URLs of an alias are settled
without a request, except those that are being checked again, and the alias shares the delay of its main name.

A page *agrees* if both names show the same text at a path, or the same but for their own address. It *disagrees* if
they show different things at nearly the same time. Otherwise (alike, far apart in time, out of order) it says nothing.

Two names are one if enough different pages agree: `sites.alias_pages`, and as many more for each that disagrees (twice
as many for the home page). The same page at every path counts once, so hosts that have nothing but a default page stay
separate.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import xxhash

from teia.config.sections import SitesSettings
from teia.crawler.child.messages import FoundLink
from teia.crawler.visit import ActiveVisit
from teia.frontier.cell import alias_evidence
from teia.frontier.cell.alias_evidence import (
    ALIAS,
    DISTINCT,
    RETURNING,
    AliasEvidence,
    AliasPair,
    ComparedVisit,
    HostActivity,
)
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import FoundUrl, QueuedUrl, tail_of, url_from
from teia.frontier.cell.schema import STATE_QUEUED
from teia.frontier.queue.politeness import Politeness
from teia.frontier.queue.retry import RETRY_RULES
from teia.frontier.queue.schedule import HostQueue
from teia.frontier.tables.pages import find_url_at
from teia.lib.simhash import distance
from teia.records import Outcome
from teia.urls import cell_of, host_to_cell, is_address, key_of, site_of, slot_of, split

FIRST_REQUESTS = 5
"""Number of a host's first requests, robots.txt included, among which all pages are samples."""

MAX_WATCHED = 4
"""Maximum number of pairs per host; pages of a name with more pairs are compared in these alone."""

MAX_PAIRS = 20_000
"""Maximum number of pairs in memory; the oldest are forgotten until the next start."""

MAX_CAUGHT_UP = 32
"""Number of a host's pages that are compared when it is first watched."""

MAX_SAMPLES = 10_000
"""Maximum number of samples that wait for a transaction of their cell."""

CHECKED_PAGES = 2
WILDCARD = 8
MAX_REQUEUED = 5_000
MAX_CHAIN = 16


@dataclass(slots=True)
class RenamedHosts:
    """Changes of names that a group of pages caused.

    `names` are (alias, main name), the main name empty for a revoked alias; `hosts` are (cell, name) of those that have
    something to fetch; `checks` are keys of URLs that are fetched though their host is an alias.
    """

    names: list[tuple[str, str]] = field(default_factory=list)
    hosts: list[tuple[int, str]] = field(default_factory=list)
    checks: list[int] = field(default_factory=list)


class AliasBook:
    """The aliases of one collection; see the module docstring."""

    def __init__(
        self,
        cells: Mapping[int, FrontierCell],
        starts: Sequence[int],
        settings: SitesSettings,
        is_in_scope: Callable[[str], bool],
        *,
        obeys_robots: bool = True,
        cell_number: Callable[[str], int] | None = None,
        within_sites: bool = False,
    ) -> None:
        """Read the pairs of all cells; a node passes its function for the cell of a host, and `within_sites`."""
        self.is_in_scope = is_in_scope
        """Tests whether a URL is in scope; a name whose pages are out of scope cannot be a main name."""
        self._cells, self._starts, self._settings, self._obeys_robots = dict(cells), starts, settings, obeys_robots
        self._number = cell_number or host_to_cell(starts)
        self._within_sites = within_sites
        self.elsewhere: Mapping[str, AliasPair] = {}
        """Aliases of sites that other nodes own."""
        self.changes = 0
        """Number of decisions since the start."""
        self._mains: dict[str, AliasPair] = {}
        self._pairs: OrderedDict[tuple[str, str], AliasPair] = OrderedDict()
        self._by_host: dict[str, list[AliasPair]] = {}
        self._names_of: Counter[tuple[str, str]] = Counter()
        self._samples: dict[int, dict[tuple[int, int], str]] = defaultdict(dict)
        self._unsaved: dict[AliasPair, None] = {}
        self._dropped: list[tuple[str, str]] = []
        self._overdue: dict[AliasPair, None] = {}
        self._checking: dict[int, AliasPair] = {}
        self._returning: dict[AliasPair, None] = {}
        self._homes: list[FoundUrl] = []
        self._renamed = RenamedHosts()
        self.now_s = 0.0
        """Time of the group that is being committed."""
        for cell in self._cells.values():
            for pair in alias_evidence.open_pairs(cell):
                self._load_pair(pair)

    def reload(self, number: int) -> None:
        """Read the pairs of a cell again: another node sent it a site, or it sent one away."""
        self._forget_where(lambda host: self._number(host) == number or self._number(host) not in self._cells)
        for pair in alias_evidence.open_pairs(self._cells[number]):
            self._load_pair(pair)
        self.changes += 1

    def forget_cell(self, number: int) -> None:
        """Forget a cell that another node owns by now."""
        self._cells.pop(number, None)
        self._samples.pop(number, None)
        self._forget_where(lambda host: self._number(host) not in self._cells)
        self.changes += 1

    def _forget_where(self, is_gone: Callable[[str], bool]) -> None:
        for pair in [pair for pair in self._mains.values() if is_gone(pair.host)]:
            del self._mains[pair.host]
            self._names_of[site_of(pair.host), pair.other] -= 1
        for pair in [pair for pair in self._pairs.values() if is_gone(pair.host)]:
            self._forget(pair)
        for pairs in (self._unsaved, self._overdue, self._returning):
            for pair in [pair for pair in pairs if is_gone(pair.host)]:
                del pairs[pair]
        self._checking = {key: pair for key, pair in self._checking.items() if not is_gone(pair.host)}
        self._dropped = [names for names in self._dropped if not is_gone(names[0])]
        self._homes = [found for found in self._homes if not is_gone(found.host)]

    def own_aliases(self) -> dict[str, AliasPair]:
        """Return the aliases that were recognised here; from any thread."""
        return self._mains.copy()

    def _load_pair(self, pair: AliasPair) -> None:
        """Continue with a pair that an earlier run left."""
        if pair.state == ALIAS:
            self._mains[pair.host] = pair
            self._names_of[site_of(pair.host), pair.other] += 1
            if pair.checking_s:
                self._expect(pair)
        elif pair.state == RETURNING:
            self._returning[pair] = None
        else:
            self._watch(pair)

    # -- names ---------------------------------------------------------------------------------------------

    def main_name(self, host: str) -> str:
        """Return the main name of an alias; empty for a host that is none."""
        main = ""
        for _ in range(MAX_CHAIN):
            pair = self._pair(host)
            if pair is None:
                break
            main = host = pair.other
        return main

    def _pair(self, alias: str) -> AliasPair | None:
        return self._mains.get(alias) or self.elsewhere.get(alias)

    def main_url(self, host: str, tail: str) -> str | None:
        """Return the URL that an alias' URL stands for; None if it stands for itself."""
        pair = self._pair(host)
        if pair is None:
            return None
        url = alias_evidence.url_at_main(pair, self.main_name(host), tail)
        return url if self.is_in_scope(url) else None

    @property
    def has_aliases(self) -> bool:
        return bool(self._mains or self.elsewhere)

    def __contains__(self, host: str) -> bool:
        """Tell whether a host is an alias."""
        return host in self._mains or host in self.elsewhere

    def rewrite(self, link: FoundLink) -> FoundLink:
        """Return a link, rewritten to the main name if it leads to an alias."""
        pair = self._pair(link.host)
        if pair is None:
            return link
        # An alias is checked only while pages still link to it, and by its owner.
        is_overdue = not pair.checking_s and self.now_s - pair.checked_s > self._settings.alias_check_s
        if is_overdue and link.host in self._mains:
            self._overdue[pair] = None
        url = self.main_url(link.host, link.tail)
        if url is None:
            return link
        host = split(url).host
        return FoundLink(host, key_of(url), tail_of(url, host), link.count, link.text, link.by)

    def forward(self, frontier: FrontierCell, visit: ActiveVisit) -> FoundUrl | None:
        """Return the URL of the main name for one settled as `alias`; None if the alias is revoked."""
        queue, item = visit.queue, visit.item
        url = self.main_url(queue.host, tail_of(item.url, queue.host))
        if url is None:
            return None
        known = find_url_at(frontier, queue.host, item.key)
        host, by = split(url).host, known.found_by if known else 0  # the main name's URL inherits its sources
        return FoundUrl(host, key_of(url), tail_of(url, host), item.depth, 0, item.hops, by, item.hint)

    def checks(self) -> list[int]:
        """Return the keys of URLs that are being checked again, under the alias and under the main name."""
        return list(self._checking)

    # -- a group of pages ----------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """True if there is something to do even without new pages."""
        return bool(self._returning or self._unsaved or self._dropped or self._homes)

    def store_samples(self, number: int) -> None:
        """Write samples in a transaction of their cell that is under way anyway."""
        waiting = self._samples.pop(number, None)
        if waiting:
            rows = [(slot, sample, host) for (slot, sample), host in waiting.items()]
            alias_evidence.store_samples(self._cells[number], rows)

    def learn(self, visits: Iterable[ActiveVisit]) -> RenamedHosts:
        """Compare pages that have just been committed, and make the decisions that they allow.

        If it is called again with the same pages, because the disk was full, it continues where it was.
        """
        for visit in visits:
            is_here = visit.queue.cell in self._cells  # another node may have taken it
            if visit.item.purpose == "page" and visit.fetched is not None and is_here:
                self._examine(visit)
        for pair in list(self._overdue):
            self._start_check(pair)
        for pair in list(self._returning):
            self._requeue(pair)
        self._save()
        self._flush_samples(MAX_SAMPLES)
        renamed, self._renamed = self._renamed, RenamedHosts()
        return renamed

    def _examine(self, visit: ActiveVisit) -> None:
        host, result, fetched = visit.queue.host, visit.result, visit.fetched
        checked = self._checking.get(visit.item.key)
        if checked is not None:
            self._check(checked)
        is_sample = visit.queue.requests <= FIRST_REQUESTS or is_sampled(visit.item.url)
        if result is None or fetched is None or not (is_sample or result.redirect_to or host in self._by_host):
            return
        if host in self._mains or visit.outcome == Outcome.SOFT_404:
            return
        text = result.text_digest or result.digest
        fields = (result.simhash, result.title, result.canonical, result.redirect_to, result.media_type)
        seen = ComparedVisit(visit.item.url, fetched.status, text, *fields, fetched.started_s)
        tail = tail_of(seen.url, host)
        if seen.redirect_to:
            self._examine_redirect(host, seen)
        for pair in list(self._by_host.get(host, ())):
            self._compare(pair, tail, host, seen)
        # A comparison above may have made this host an alias.
        if is_sample and is_page(seen) and host not in self._mains:
            self._find_candidates(host, tail, seen, visit.address)

    # -- pairs to watch ------------------------------------------------------------------------------------

    def _find_candidates(self, host: str, tail: str, seen: ComparedVisit, address: str) -> None:
        """Look for another name that showed this page before; if there is none, record this host as its holder."""
        candidates = [self._same_but_www(host)]
        site = site_of(host)
        for scope, sample in samples_of(seen, site, "" if self._within_sites else address):
            slot = slot_of(scope)
            number = self._number(host) if scope == site else cell_of(slot, self._starts)
            # Samples of this group may not be on disk yet.
            holder = self._samples[number].get((slot, sample)) or alias_evidence.sample_owner(
                self._cells[number], slot, sample
            )
            if holder is None:
                self._samples[number][slot, sample] = host
            candidates.append(holder)
        for other in {each for each in candidates if each is not None and each != host}:
            self._consider(host, other, home_of(tail))

    def _same_but_www(self, host: str) -> str | None:
        other = host.removeprefix("www.") if host.startswith("www.") else f"www.{host}"
        if is_address(host) or not self._may_compare(host, other):
            return None
        return other if alias_evidence.host_activity(self._cell(other), other, "/") is not None else None

    def _may_compare(self, host: str, other: str) -> bool:
        return not self._within_sites or site_of(host) == site_of(other)

    def _examine_redirect(self, host: str, seen: ComparedVisit) -> None:
        other = split(seen.redirect_to).host
        if other != host and leads_to_other(seen, other) and self._may_watch(host, other):
            self._watch(AliasPair(host, other, self.now_s))

    def _consider(self, host: str, other: str, home: str) -> None:
        other = self.main_name(other) or other
        if other == host or not self._may_watch(host, other) or self._robots_agree(host, other) is False:
            return
        if alias_evidence.host_activity(self._cell(other), other, home) is None:
            return
        pair = AliasPair(host, other, self.now_s)
        self._watch(pair)
        for tail in alias_evidence.visited_tails(self._cell(host), host, MAX_CAUGHT_UP):
            seen = alias_evidence.last_visit(self._cell(host), host, tail)
            if seen is not None and (host, other) in self._pairs:
                self._compare(pair, tail, host, seen)

    def _may_watch(self, host: str, other: str) -> bool:
        if (
            not self._may_compare(host, other)
            or (host, other) in self._pairs
            or (other, host) in self._pairs
            or len(self._by_host.get(host, ())) >= MAX_WATCHED
        ):
            return False
        states = {alias_evidence.pair_state(self._cell(one), one, two) for one, two in ((host, other), (other, host))}
        return not states & {DISTINCT, RETURNING}

    def _watch(self, pair: AliasPair) -> None:
        self._pairs[pair.host, pair.other] = pair
        for host in (pair.host, pair.other):
            of_host = self._by_host.setdefault(host, [])
            # If the other host has too many pairs, only pages of this host are compared in this one.
            if host == pair.host or len(of_host) < MAX_WATCHED:
                of_host.append(pair)
        if len(self._pairs) > MAX_PAIRS:
            self._forget(next(iter(self._pairs.values())))

    def _forget(self, pair: AliasPair) -> None:
        """Stop watching a pair; its stored evidence stays."""
        self._pairs.pop((pair.host, pair.other), None)
        for host in (pair.host, pair.other):
            of_host = [each for each in self._by_host.pop(host, ()) if each is not pair]
            if of_host:
                self._by_host[host] = of_host

    # -- evidence of pages ---------------------------------------------------------------------------------

    def _compare(self, pair: AliasPair, tail: str, host: str, here: ComparedVisit) -> None:
        """Compare one page, if the other name has it too, or is the target of its redirect."""
        if pair.host in self._mains or pair.other in self._mains:
            self._forget(pair)  # one of them is an alias by now; its main name is watched instead
            self._unsaved.pop(pair, None)
            self._dropped.append((pair.host, pair.other))
            return
        other = pair.other_than(host)
        there = alias_evidence.last_visit(self._cell(other), other, tail)
        # The target need not have been fetched: the redirect itself is the evidence.
        if there is None and leads_to_other(here, other):
            there = ComparedVisit(url_from(other, tail), 0, b"", 0, "", "", "", "", here.time_s)
        if there is None:
            return
        of_host, of_other = (here, there) if host == pair.host else (there, here)
        if add_evidence(pair, tail, of_host, of_other):
            self._unsaved[pair] = None
        self._weigh(pair, tail)

    def _weigh(self, pair: AliasPair, tail: str) -> None:
        evidence, home = pair.evidence, home_of(tail)
        if is_hopeless(evidence):
            self._mark_distinct(pair)
        elif is_redirect(evidence, self._settings.alias_pages):
            main = pair.other_than(evidence.redirecting)
            activity = alias_evidence.host_activity(self._cell(main), main, home)
            if activity is not None and activity.requests:
                self._make_alias(pair, main)
        elif is_enough(evidence, self._needed(pair)) and self._homes_are_compared(pair, home):
            agree = self._robots_agree(pair.host, pair.other)
            if agree is False:
                self._mark_distinct(pair)
            elif agree:
                # No redirect: a URL stands for the one with its own scheme and port.
                evidence.origin = ""
                self._make_alias(pair, self._main(pair, home))

    def _needed(self, pair: AliasPair) -> int:
        """Return the number of pages that must agree; one where names are made up (wildcard DNS)."""
        site = site_of(pair.host)
        is_made_up = site == site_of(pair.other) and self._names_of[site, pair.other] >= WILDCARD
        return 1 if is_made_up else self._settings.alias_pages

    def _homes_are_compared(self, pair: AliasPair, home: str) -> bool:
        """Tell whether the home pages were compared; queue one that is not known yet."""
        if hash64(home) in pair.evidence.equal or hash64(home) in pair.evidence.different:
            return True
        states = []
        for host in (pair.host, pair.other):
            state = alias_evidence.url_state(self._cell(host), host, home)
            states.append(state)
            if state is None:
                self._homes.append(FoundUrl(host, key_of(url_from(host, home)), home, depth=1, in_links=0, by=0))
        return None not in states and STATE_QUEUED not in states

    def _robots_agree(self, host: str, other: str) -> bool | None:
        """Tell whether two hosts have the same robots.txt, but for their own name; None while one is not known."""
        if not self._obeys_robots:
            return True
        here, there = (alias_evidence.robots_texts(self._cell(each), each) for each in (host, other))
        common = here.keys() & there.keys()
        return all(here[each] == there[each] for each in common) if common else None

    def _main(self, pair: AliasPair, home: str) -> str:
        of_host = alias_evidence.host_activity(self._cell(pair.host), pair.host, home)
        of_other = alias_evidence.host_activity(self._cell(pair.other), pair.other, home)
        assert of_host is not None
        assert of_other is not None
        return choose_main(pair, of_host, of_other)[0]

    # -- decisions -----------------------------------------------------------------------------------------

    def _mark_distinct(self, pair: AliasPair) -> None:
        """Mark a pair as two sites, for good."""
        pair.state = DISTINCT
        self._unsaved[pair] = None
        self._forget(pair)

    def _make_alias(self, pair: AliasPair, main: str) -> None:
        """Make one name the main one; the other is not requested any more."""
        alias = pair.other_than(main)
        for each in list(self._by_host.get(alias, ())):
            self._forget(each)
        self._unsaved.pop(pair, None)
        # An alias is stored with the host that is one. Here that is the other host, so the old row goes.
        if alias != pair.host:
            self._dropped.append((pair.host, pair.other))
        made = AliasPair(alias, main, self.now_s, ALIAS, self.now_s, evidence=pair.evidence)
        self._mains[alias] = made
        self.changes += 1
        self._names_of[site_of(alias), main] += 1
        self._unsaved[made] = None
        self._renamed.names.append((alias, main))
        # From now on one equal page is enough: pairs that waited for more are weighed again.
        if self._names_of[site_of(alias), main] == WILDCARD:
            for each in [each for each in self._pairs.values() if each.other == main]:
                self._weigh(each, next(iter(each.evidence.tails), "/"))

    # -- checks of aliases ---------------------------------------------------------------------------------

    def _start_check(self, pair: AliasPair) -> None:
        """Queue some of the pages that proved an alias, under both names."""
        del self._overdue[pair]
        if self._mains.get(pair.host) is not pair or pair.checking_s:
            return
        for host in (pair.host, pair.other):
            cell = self._cell(host)
            with cell.transaction():
                for tail in pair.evidence.tails[:CHECKED_PAGES]:
                    alias_evidence.requeue_first(cell, host, tail, self.now_s)
            self._renamed.hosts.append((self._number(host), host))
        # After the transactions: a crash before this point only makes the check begin anew.
        pair.checking_s = self.now_s
        self._unsaved[pair] = None
        self._expect(pair)
        self._renamed.checks += self._keys(pair)

    def _keys(self, pair: AliasPair) -> list[int]:
        tails = pair.evidence.tails[:CHECKED_PAGES]
        return [key_of(url_from(host, tail)) for host in (pair.host, pair.other) for tail in tails]

    def _expect(self, pair: AliasPair) -> None:
        for key in self._keys(pair):
            self._checking[key] = pair

    def _check(self, pair: AliasPair) -> None:
        """Compare the pages of a check, once all of them have been visited again."""
        doubts = self._robots_agree(pair.host, pair.other) is False and not pair.evidence.redirects
        for tail in pair.evidence.tails[:CHECKED_PAGES]:
            both = [(each, self._cell(each)) for each in (pair.host, pair.other)]
            if any(alias_evidence.url_state(cell, host, tail) == STATE_QUEUED for host, cell in both):
                return
            one, other = (alias_evidence.last_visit(cell, host, tail) for host, cell in both)
            if one is None or other is None or min(one.time_s, other.time_s) < pair.checking_s:
                continue  # one could not be fetched, which proves nothing
            doubts |= not leads_to_other(one, pair.other) and compare_pages(one, other) is PageLikeness.DISAGREES
        for key in self._keys(pair):
            self._checking.pop(key, None)
        pair.checked_s, pair.checking_s = self.now_s, 0.0
        self._unsaved[pair] = None
        if doubts:
            self._revoke(pair)

    def _revoke(self, pair: AliasPair) -> None:
        """Revoke an alias: it is requested again, and its URLs are queued again."""
        del self._mains[pair.host]
        self.changes += 1
        self._names_of[site_of(pair.host), pair.other] -= 1
        pair.state = RETURNING
        self._returning[pair] = None
        self._renamed.names.append((pair.host, ""))

    def _requeue(self, pair: AliasPair) -> None:
        cell = self._cell(pair.host)
        with cell.transaction():
            number = alias_evidence.requeue_alias_urls(cell, pair.host, MAX_REQUEUED, self.now_s)
        self._renamed.hosts.append((self._number(pair.host), pair.host))
        if number < MAX_REQUEUED:
            del self._returning[pair]
            pair.state, pair.evidence = DISTINCT, AliasEvidence()
            self._unsaved[pair] = None

    # -- on disk -------------------------------------------------------------------------------------------

    def _cell(self, host: str) -> FrontierCell:
        return self._cells[self._number(host)]

    def _save(self) -> None:
        """Write the changes; those that a full disk refuses are written the next time."""
        hosts = {*(pair.host for pair in self._unsaved), *(host for host, _ in self._dropped)}
        for number in {self._number(host) for host in (*hosts, *(found.host for found in self._homes))}:
            cell = self._cells[number]
            with cell.transaction():
                for pair in self._unsaved:
                    if self._number(pair.host) == number:
                        alias_evidence.save_pair(cell, pair, self.now_s)
                for host, other in self._dropped:
                    if self._number(host) == number:
                        alias_evidence.drop_pair(cell, host, other, self.now_s)
                homes = [found for found in self._homes if self._number(found.host) == number]
                self._renamed.hosts += [(number, host) for _, host in cell.add_links(homes, self.now_s)]
        # Cleared once all cells have them: after a full disk everything is written again, which changes nothing.
        self._unsaved.clear()
        self._dropped.clear()
        self._homes.clear()

    def _flush_samples(self, at_least: int) -> None:
        for number in [number for number, waiting in self._samples.items() if len(waiting) >= at_least]:
            with self._cells[number].transaction():
                self.store_samples(number)

    def close(self) -> None:
        """Write the samples that are still waiting for a transaction."""
        self._flush_samples(1)


# ---- on the event loop -----------------------------------------------------------------------------------------------


class AliasNames:
    """Aliases known to the event loop; with no `book` there are none."""

    def __init__(self, book: AliasBook | None) -> None:
        self._book = book
        self._checks = set(book.checks() if book is not None else ())
        self._moving: dict[HostQueue, None] = {}

    def main_name(self, host: str) -> str:
        """Return the main name of an alias; empty for a host that is none."""
        return "" if self._book is None else self._book.main_name(host)

    def stands_for_other(self, queue: HostQueue, item: QueuedUrl) -> bool:
        """Tell whether a URL of an alias stands for one of its main name."""
        if self._book is None or item.purpose != "page" or item.key in self._checks:
            return False
        return self._book.main_url(queue.host, tail_of(item.url, queue.host)) is not None

    def apply(
        self,
        names: Iterable[tuple[str, str]],
        checks: Iterable[int],
        queues: Mapping[str, HostQueue],
        politeness: Politeness,
    ) -> None:
        """Apply the decisions of a commit: (alias, main name), empty for a revoked alias, and keys to be checked."""
        self._checks.update(checks)
        for name, main in names:
            queue = queues.get(name)
            if queue is not None:
                queue.alias_of = main
                self._moving[queue] = None
        for queue in [queue for queue in self._moving if not queue.server.busy]:
            # A request under way ends at the server where it began; only then may the host share another name's delay.
            del self._moving[queue]
            queue.server = politeness.server(queue.alias_of or queue.host)


# ---- evidence that two names are one site ----------------------------------------------------------------------------


SAME_TIME_S = 86_400.0
"""Pages seen further apart in time may differ because they changed."""

ALIKE_BITS = 8
MAX_DIFFERENT = 3
MAX_COMPARED = 64
"""Number of compared pages without a decision after which two names stay separate."""

MUCH_MORE = 16
"""A name with so many more pages, and twice as many, stays the main one: else they would be fetched again."""

PAGES = frozenset({"text/html", "application/xhtml+xml", "application/pdf"})
MAX_TAILS = 4
SAMPLED = 16
"""One of so many paths is sampled, the same on every host."""


class PageLikeness(Enum):
    """Evidence of one page on two names."""

    AGREES = "agrees"
    DISAGREES = "disagrees"
    NOTHING = "nothing"


def compare_pages(one: ComparedVisit, other: ComparedVisit) -> PageLikeness:
    """Compare the answers of two names at one path."""
    both_good = is_page(one) and is_page(other)
    if both_good and _is_same(one, other):
        return PageLikeness.AGREES
    if abs(one.time_s - other.time_s) > SAME_TIME_S or _is_unclear(one) or _is_unclear(other):
        return PageLikeness.NOTHING
    if both_good:
        is_alike = one.simhash and other.simhash and distance(one.simhash, other.simhash) <= ALIKE_BITS
        return PageLikeness.NOTHING if is_alike else PageLikeness.DISAGREES
    return PageLikeness.NOTHING if one.status == other.status else PageLikeness.DISAGREES


def is_page(seen: ComparedVisit) -> bool:
    """Tell whether an answer can be compared: sites made with the same program share scripts and styles."""
    return 200 <= seen.status < 300 and bool(seen.text) and seen.media_type in PAGES


def _is_unclear(seen: ComparedVisit) -> bool:
    """Tell whether an answer is a temporary error, or not a page."""
    is_other = 200 <= seen.status < 300 and not is_page(seen)
    return is_other or seen.status == 0 or str(seen.status) in RETRY_RULES


def _is_same(one: ComparedVisit, other: ComparedVisit) -> bool:
    """Tell whether texts are equal, or have equal simhashes (made without addresses) and titles."""
    if one.text == other.text:
        return True
    if not one.simhash or one.simhash != other.simhash:
        return False
    title = plain_title(one.title, one.url)
    return bool(title) and title == plain_title(other.title, other.url)


def leads_to_other(seen: ComparedVisit, other: str) -> bool:
    """Tell whether a page redirects to the same path of another host."""
    if not seen.redirect_to:
        return False
    there, here = split(seen.redirect_to), split(seen.url)
    return there.host == other and there.target == here.target


# ---- numbers --------------------------------------------------------------------------------------------------------


def hash64(text: str) -> int:
    """Return a signed hash of a text, as SQLite stores it."""
    number: int = xxhash.xxh3_64_intdigest(text.encode())
    return number - (1 << 64) if number >= 1 << 63 else number


def content_of(seen: ComparedVisit) -> int:
    """Return a number for a page's content, equal for pages that differ only in their address."""
    return seen.simhash or int.from_bytes(seen.text[:8], "big")


def is_sampled(url: str) -> bool:
    """Tell whether hosts are compared at a URL's path: the home page, and some paths chosen by their hash."""
    target = url[url.index("/", 8) :]
    return len(target) == 1 or hash64(target) % SAMPLED == 0


def samples_of(seen: ComparedVisit, site: str, address: str) -> list[tuple[str, int]]:
    """Return (scope, number) under which another host of the page's site, or at its address, can find it."""
    target = split(seen.url).target
    return [(scope, hash64(f"{scope} {target} {content_of(seen):x}")) for scope in (site, address) if scope]


# ---- evidence -------------------------------------------------------------------------------------------------------


def add_evidence(pair: AliasPair, tail: str, of_host: ComparedVisit, of_other: ComparedVisit) -> bool:
    """Add the evidence of one page; return whether it was new. A page counts once."""
    evidence, target = pair.evidence, hash64(tail)
    if target in evidence.equal or target in evidence.different or target in evidence.redirects:
        return False
    for redirecting, seen, to in ((pair.host, of_host, pair.other), (pair.other, of_other, pair.host)):
        if leads_to_other(seen, to):
            return _note_redirect(evidence, target, tail, redirecting, seen)
    likeness = compare_pages(of_host, of_other)
    if likeness is PageLikeness.AGREES:
        evidence.equal[target] = content_of(of_host)
        evidence.named += _calls_canonical(of_host, pair.host) - _calls_canonical(of_host, pair.other)
        _store_tail(evidence, tail)
    elif likeness is PageLikeness.DISAGREES:
        evidence.different += [target] * (1 + (tail == home_of(tail)))
    return likeness is not PageLikeness.NOTHING


def _note_redirect(evidence: AliasEvidence, target: int, tail: str, redirecting: str, seen: ComparedVisit) -> bool:
    """Add a redirect; all must go one way, and to one origin, others count against the pair."""
    origin = seen.redirect_to[: -len(split(seen.redirect_to).target)]
    if evidence.redirects and (evidence.redirecting, evidence.origin) != (redirecting, origin):
        evidence.different.append(target)
    else:
        evidence.redirects.append(target)
        evidence.redirecting, evidence.origin = redirecting, origin
        _store_tail(evidence, tail)
    return True


def _store_tail(evidence: AliasEvidence, tail: str) -> None:
    """Keep a few paths for later checks, the home page first."""
    if tail == home_of(tail):
        evidence.tails.insert(0, tail)
    elif len(evidence.tails) < MAX_TAILS:
        evidence.tails.append(tail)


def _calls_canonical(seen: ComparedVisit, host: str) -> bool:
    return bool(seen.canonical) and split(seen.canonical).host == host


def home_of(tail: str) -> str:
    """Return the tail of the home page with the same port and scheme."""
    return tail[: tail.index("/") + 1]


def is_hopeless(evidence: AliasEvidence) -> bool:
    compared = len(evidence.equal) + len(evidence.different) + len(evidence.redirects)
    return len(evidence.different) >= MAX_DIFFERENT or compared >= MAX_COMPARED


def is_redirect(evidence: AliasEvidence, needed: int) -> bool:
    """Tell whether one name only redirects to the other."""
    return len(evidence.redirects) >= needed * (1 + len(evidence.different) + len(evidence.equal))


def is_enough(evidence: AliasEvidence, needed: int) -> bool:
    """Tell whether enough different pages agree."""
    return len(set(evidence.equal.values())) >= needed * (1 + len(evidence.different))


# ---- choice of the main name ----------------------------------------------------------------------------------------


def choose_main(pair: AliasPair, host: HostActivity, other: HostActivity) -> tuple[str, str]:
    """Return the main name and the alias of two that show the same pages.

    The main name is the one with many more fetched pages; else the one the pages call canonical; else the one with more
    links to it; else the shorter.
    """
    more, less = max(host.requests, other.requests), min(host.requests, other.requests)
    if more >= 2 * less and more - less >= MUCH_MORE:
        is_main = host.requests > other.requests
    elif pair.evidence.named:
        is_main = pair.evidence.named > 0
    elif host.in_links != other.in_links:
        is_main = host.in_links > other.in_links
    else:
        is_main = (len(pair.host), pair.host) < (len(pair.other), pair.other)
    return (pair.host, pair.other) if is_main else (pair.other, pair.host)


# ---- titles ----------------------------------------------------------------------------------------------------------


def plain_title(title: str, url: str) -> str:
    """Return a title in comparable form: without case, accents, blanks and the page's own address."""
    # The code that normalises text is loaded with the first pair of pages that needs it; most crawls have none.
    from teia.parse.text.fingerprint import without_address
    from teia.parse.text.normal import normalised

    return " ".join(without_address(normalised(title), url).split())
