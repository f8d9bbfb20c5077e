"""The rendering of one collection: which pages wait for it, what it brought, and its budget.

A page whose signs (parse/html/script_signs.py) say that scripts may bring more is taken from the loop after it was read
(`take`). It waits while a trial of its kind is under way, is rendered, and is read again with the document that its
scripts made; or it continues as it was received. Few pages wait at a time. Beyond that, pages that wait for a trial
continue (postponed_pages.py), and a host of which many wait to be rendered gets no further page requested.

Trials take processor time, and most bring nothing. A host with a delay leaves time for them. Of a host without one, all
pages continue; trials are made when the crawl has nothing else to do (`use_idle_time`), or when `MANY` pages wait for
their verdict. Its nearly empty pages wait for that moment, but not longer than `HOLD_S`, nor while the crawl waits at
its quota.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from msgspec.structs import replace

from teia.clock import Clock
from teia.config.sections import LimitSettings
from teia.crawler.child.messages import ReadResult, RenderedDocument
from teia.crawler.compiled_settings import user_agent
from teia.crawler.rendering.browser_requests import PageRequests
from teia.crawler.rendering.browsers import Browsers, RenderJob
from teia.crawler.rendering.kinds import SAME_SCRIPTS, HostKinds, RenderKind, RenderVerdict, encode_kind
from teia.crawler.rendering.postponed_pages import PostponedPages, Scripts, decode_pages, stored_pages
from teia.crawler.running_collection import Crawl
from teia.crawler.visit import ActiveVisit
from teia.frontier.cell.rows import QueuedUrl, tail_of
from teia.frontier.cell.schema import BY_REQUISITE
from teia.frontier.rules.scope import compile_scope
from teia.frontier.traps.patterns import pattern_of
from teia.frontier.traps.url_shapes import trap_of
from teia.parse.decode import decode
from teia.parse.headers import parse_head
from teia.records import Fetched, Outcome
from teia.render.page import BrowserAnswer, PageLimits, RenderedPage
from teia.urls import host_of, key_of

MAX_OF_HOST, MAX_WAITING, MAX_BYTES = 256, 1_024, 128 * 2**20
"""Pages of a host, and of all hosts, that wait at most before no further page is requested; and the size of all."""

HOLD_S, MANY = 5.0, 5_000
"""Time that nearly empty pages of a host without a delay wait for a moment without other work at most; and number of
pages with the same scripts for which a trial is made without such a moment.

A trial costs as much processor time as some 150 pages.
"""

MAX_FOR_TRIAL, MAX_TRIALS = 1, 64
"""Pages that wait for a trial at most, and pages before the browser with which no further trial begins.

The trap detector lets few URLs of a new pattern go at a time (frontier/traps/detector.py), so few may wait here.
"""

Accept = Callable[[Crawl, ActiveVisit, ReadResult], None]
"""Function of the loop that continues with a page as it was received."""

Reread = Callable[[Crawl, ActiveVisit, RenderedDocument], None]
"""Function of the loop that has a page read again, as its scripts show it."""


@dataclass(slots=True)
class RenderCounts:
    """Counts of this run."""

    rendered: int = 0
    gained: int = 0
    failed: int = 0
    over_budget: int = 0
    postponed: int = 0


@dataclass(slots=True, eq=False)
class _Trial:
    """A trial of a kind that is under way: its host and scripts, and the pages that wait for its result."""

    same: Scripts
    waiting: list[ActiveVisit] = field(default_factory=list)


class Rendering:
    """Rendering of one crawl; all of it lives on the event loop."""

    def __init__(
        self,
        crawl: Crawl,
        browsers: Browsers,
        clock: Clock,
        accept: Accept,
        reread: Reread,
        queue_request: Callable[[QueuedUrl], None],
    ) -> None:
        self._crawl, self._browsers, self._clock = crawl, browsers, clock
        self._accept, self._reread = accept, reread
        self.requests = PageRequests(clock, self._may_request, queue_request)
        self._kinds: defaultdict[str, HostKinds] = defaultdict(HostKinds)
        self._trials: dict[int, _Trial] = {}
        self._open_trials: Counter[Scripts] = Counter()
        """Number of trials under way, by host and scripts; further kinds with these scripts wait for them."""
        self._after_trials: defaultdict[Scripts, list[ActiveVisit]] = defaultdict(list)
        self._postponed = PostponedPages(self._request_again, self._update_verdict)
        self._asked: dict[str, Scripts] = {}
        """Postponed pages that were requested to be trials."""
        self._held: list[ActiveVisit] = []
        self._held_since = 0.0
        self._under_way: dict[ActiveVisit, RenderKind | None] = {}
        self._rereads: set[ActiveVisit] = set()
        """Pages under way that a parse child reads again: a stop waits for them."""
        self._of_host: Counter[str] = Counter()
        self._bytes = 0
        self.counts = RenderCounts()
        self.apply_settings()

    def apply_settings(self) -> None:
        """Use the settings that the crawl has now."""
        render = self._settings = self._crawl.config.render
        self._always = compile_scope(render.always) if render.always else None
        self._never = compile_scope((), render.never)
        self._limits = PageLimits(
            render.busy_s, render.longest_s, render.requests, body_bytes=self._crawl.config.limits.body_bytes
        )

    # -- which pages ---------------------------------------------------------------------------------------

    def is_full(self, host: str) -> bool:
        """Tell whether too many pages wait for another one of this host to be requested."""
        # Pages with the same body are read once its first is committed, all together: those of an application.
        seen = self._crawl.content_seen
        waiting = len(self._under_way) + (0 if seen is None else seen.waiting)
        return self._of_host[host] >= MAX_OF_HOST or waiting >= MAX_WAITING or self._bytes >= MAX_BYTES

    def take(self, visit: ActiveVisit, result: ReadResult) -> bool:
        """Take a page that was read and may need rendering; return False if it is to continue as it is."""
        mode = self._mode(visit.item.url)
        if result.signs is None or mode == "never" or (mode == "auto" and not result.signs.scripts):
            return False
        kind = None
        if mode == "auto":
            kind = self._kind_of(visit, result)
            if kind is None and not visit.item.is_rendered:
                return False
            if kind is not None and not kind.is_wanted(self._clock.now_s()):
                if kind.is_failing:
                    _keep_capture(visit, "pages of its kind could not be rendered")
                return False
        if self._browsers.is_down:
            _keep_capture(visit, self._browsers.trouble)
            return False
        if self._settings.budget and self.counts.rendered >= self._settings.budget:
            self.counts.over_budget += 1
            _keep_capture(visit, "the budget of the run is used up")
            return False
        was_asked = self._asked.pop(visit.item.url, None) is not None
        if self._crawl.is_ending:
            is_needed = (
                mode == "always"
                or result.signs.is_empty
                or (kind is not None and kind.verdict is RenderVerdict.RENDERED)
            )
            if is_needed:  # it is fetched again in the next run
                self._crawl.unrendered += 1
                self._crawl.forget(visit)
            return is_needed
        is_fast = visit.queue.server.needs_no_delay and not was_asked
        if kind is not None and kind.is_undecided and not kind.is_empty:
            waiting = self._trial_of(visit.queue.host, kind)
            has_room = self._browsers.waiting < MAX_TRIALS if waiting is None else len(waiting) < MAX_FOR_TRIAL
            if is_fast or not (has_room or was_asked):  # else it might be requested time and again
                self._postpone(visit, kind, result)
                return True
        visit.static = result
        self._under_way[visit] = kind
        self._of_host[visit.queue.host] += 1
        self._bytes += _size(visit)
        if kind is not None and kind.is_undecided and is_fast and id(kind) not in self._trials:
            self._held_since = self._held_since if self._held else self._clock.ticks_s()
            self._held.append(visit)
        else:
            self._admit(visit, kind)
        return True

    def _postpone(self, visit: ActiveVisit, kind: RenderKind, result: ReadResult) -> None:
        """Continue with a page as received; it is requested again if its kind turns out to be rendered."""
        assert result.signs is not None
        self.counts.postponed += 1
        self._postponed.add(visit, kind, result.signs.chars)
        # Without validators, so that it would come whole.
        self._accept(self._crawl, visit, replace(result, etag="", last_modified=""))

    def note_committed(self, visits: Sequence[ActiveVisit]) -> None:
        """Request those pages again whose kind turned out to be rendered after they had gone on as received."""
        self._postponed.note_committed(visits)
        self._postponed.request_due()
        for visit in visits if self._asked else ():
            self._asked.pop(visit.item.url, None)  # it came in another form: it has failed, or has no scripts now
        self._ask(self._postponed.waiting(MANY))
        if self._held and self._clock.ticks_s() - self._held_since >= HOLD_S:
            self._release_held()

    @property
    def held(self) -> int:
        """Number of pages that wait for a moment in which the crawl has nothing else to do."""
        return len(self._held)

    @property
    def wants_idle_time(self) -> bool:
        """True if there are trials to make in a moment in which the crawl has nothing else to do."""
        return bool(self._held) or self._postponed.has_work

    def use_idle_time(self) -> None:
        """Begin trials: the crawl has nothing else to do."""
        self._release_held()
        self._postponed.request_due()
        # Nothing is under way: pages that are not to come either were not fetched.
        self._asked = {url: same for url, same in self._asked.items() if self._has_queued(same[0])}
        self._ask(self._postponed.waiting())

    def _has_queued(self, host: str) -> bool:
        """Tell whether a host has URLs that it gets requested: one that waits for its delay."""
        queue = self._crawl.queues.get(host)
        return queue is not None and queue.head is not None and not queue.parked

    def postpone_held(self) -> None:
        """Continue with the pages that are held, as received: the crawl waits until no visit is under way."""
        held, self._held = self._held, []
        for visit in held:
            kind, static = self._under_way[visit], visit.static
            assert kind is not None
            assert static is not None
            self._end(visit, None)
            _keep_capture(visit, "the crawl has come to its quota")
            self._postpone(visit, kind, static)

    def _release_held(self) -> None:
        held, self._held = self._held, []
        for visit in held:
            self._admit(visit, self._under_way[visit])

    def _ask(self, waiting: list[Scripts]) -> None:
        """Request postponed pages to be the trials of their kinds, one with the same scripts at a time."""
        asked = set(self._asked.values())
        for same in waiting:
            url = None if same in self._open_trials or same in asked else self._postponed.ask(same)
            if url is not None:
                self._asked[url] = same
            elif same[0] not in self._crawl.queues:
                self.forget(same[0])

    def _request_again(self, url: str) -> None:
        self._crawl.committer.visit_requests.accept(url, self._clock.now_s())

    def _update_verdict(self, host: str, kind: RenderKind, chars: int) -> None:
        """Give a kind that had no trial the verdict on its scripts, if there is one."""
        self._kinds[host].find(kind.pattern, kind.scripts, is_empty=kind.is_empty, chars=chars)

    def _admit(self, visit: ActiveVisit, kind: RenderKind | None) -> None:
        """Render a page, as a trial or not, or let it wait for trials that are under way."""
        if kind is None or kind.verdict is RenderVerdict.RENDERED:
            self._start(visit)
            return
        waiting = self._trial_of(visit.queue.host, kind)
        if waiting is not None:
            waiting.append(visit)
            return
        same = (visit.queue.host, kind.scripts)
        self._trials[id(kind)] = _Trial(same)
        self._open_trials[same] += 1
        self._start(visit)

    def _trial_of(self, host: str, kind: RenderKind) -> list[ActiveVisit] | None:
        """Return the pages that wait for a trial of a kind, or of its scripts; None if a trial may begin."""
        trial, same = self._trials.get(id(kind)), (host, kind.scripts)
        if trial is not None:
            return trial.waiting
        under_way = self._open_trials[same]
        if kind.is_empty or not under_way or under_way + self._kinds[host].barren_patterns(kind.scripts) < SAME_SCRIPTS:
            return None
        # These trials may show that the scripts bring nothing.
        return self._after_trials[same]

    def _mode(self, url: str) -> str:
        try:
            if self._never.excludes(url):
                return "never"
            if self._always is not None and self._always.allows(url):
                return "always"
        except Exception:  # noqa: BLE001  # a rule that is a function written by the user
            return "never"
        return self._settings.mode

    def _kind_of(self, visit: ActiveVisit, result: ReadResult) -> RenderKind | None:
        assert result.signs is not None
        host = visit.queue.host
        pattern = pattern_of(tail_of(visit.item.url, host))
        signs, kinds = result.signs, self._kinds[host]
        return kinds.find(pattern, signs.scripts, is_empty=signs.is_empty, chars=signs.chars)

    def load(self, host: str, records: list[bytes]) -> None:
        """Take what earlier runs have learnt about a host, and the pages that they have postponed."""
        self._kinds[host].load(records)
        for stored in () if self._crawl.is_ending else filter(None, map(decode_pages, records)):
            kind = self._kinds[host].find(stored.pattern, stored.scripts, is_empty=stored.is_empty)
            if kind is not None and stored.pages and self._postponed.load(host, kind, stored.pages):
                own = RenderKind(stored.pattern, stored.scripts, stored.is_empty)  # its kind may be that of many
                self._crawl.store_postponed("", host, [stored_pages(own, [])])

    def forget(self, host: str) -> None:
        """Drop a host that has left memory; what was learnt is on disk."""
        if not self._postponed.has_pages_of(host):
            self._kinds.pop(host, None)

    # -- a page is rendered --------------------------------------------------------------------------------

    def _start(self, visit: ActiveVisit) -> None:
        fetched, config = visit.fetched, self._crawl.config
        assert fetched is not None
        self.counts.rendered += 1
        self._browsers.submit(
            RenderJob(
                fetched.url,
                partial(_page_answer, fetched, config.limits),
                self.requests.fetch,
                self._limits,
                user_agent(config.courtesy),
                partial(self._handle_rendered, visit),
                lambda: visit in self._under_way,
            )
        )

    def _handle_rendered(self, visit: ActiveVisit, page: RenderedPage) -> None:
        self._crawl.not_rendered = self._browsers.trouble
        if visit not in self._under_way:
            return  # the crawl has ended meanwhile
        if page.error:
            self._handle_failure(visit, page.error, is_blameless=page.is_blameless)
            return
        document = RenderedDocument(page.document, self._clock.now_s(), page.requests, page.leads_to)
        self._rereads.add(visit)
        self._reread(self._crawl, visit, document)

    def _handle_failure(self, visit: ActiveVisit, why: str, *, is_blameless: bool = False) -> None:
        """Continue with a page as it was received; one whose last capture was rendered keeps that."""
        kind, static = self._under_way[visit], visit.static
        assert static is not None
        self.counts.failed += 1
        if kind is not None and not is_blameless:
            kind.note_failure(self._clock.now_s())
        self._end(visit, kind)
        visit.detail = f"not rendered: {why}"
        _keep_capture(visit, why)
        self._accept(self._crawl, visit, static)
        self._decide_trial(kind)

    def note_read(self, visit: ActiveVisit, result: ReadResult | None) -> None:
        """Learn from a page that was rendered and read again; None if that killed its parse child."""
        kind = self._under_way[visit]
        if result is None or result.gain is None:
            self._handle_failure(visit, "its document cannot be read, or has lost most of its text")
            return
        gain, static = result.gain, visit.static
        assert static is not None
        assert static.signs is not None
        self.counts.gained += result.is_rendered
        if kind is not None:
            kind.note_gain(gain.words, gain.links, gain.added, self._clock.now_s(), static.signs.chars)
        visit.detail = f"rendered: {gain.words} words, {gain.links} links"
        self._end(visit, kind)
        self._accept(self._crawl, visit, result)
        self._decide_trial(kind)

    def _end(self, visit: ActiveVisit, kind: RenderKind | None) -> None:
        """Count a page out; its commit stores what was learnt."""
        del self._under_way[visit]
        self._rereads.discard(visit)
        self._of_host[visit.queue.host] -= 1
        if not self._of_host[visit.queue.host]:
            del self._of_host[visit.queue.host]
        self._bytes -= _size(visit)
        if kind is not None:
            visit.learnt = [(_key(kind), encode_kind(kind))]
        visit.static = None

    def _decide_trial(self, kind: RenderKind | None) -> None:
        """Let the pages go that waited for a trial of their kind: to be rendered, or on as they are."""
        trial = self._trials.get(id(kind))
        if trial is None or kind is None:
            return
        if kind.verdict is RenderVerdict.UNSURE and trial.waiting:
            self._start(trial.waiting.pop(0))  # the trial brought a little: the next page is another one
            return
        del self._trials[id(kind)]
        self._open_trials[trial.same] -= 1
        waiting = [*trial.waiting, *self._after_trials.pop(trial.same, ())]
        if not self._open_trials[trial.same]:
            del self._open_trials[trial.same]
        for visit in waiting:
            static = visit.static
            assert static is not None
            own = self._under_way[visit] = self._kind_of(visit, static)
            if own is None or own.verdict is RenderVerdict.STATIC or self._browsers.is_down:
                if own is not None and own.verdict is RenderVerdict.STATIC:
                    own.skipped += 1
                if own is None or own.is_failing or self._browsers.is_down:
                    _keep_capture(visit, "pages of its kind could not be rendered")
                self._end(visit, None)
                self._accept(self._crawl, visit, static)
            else:
                self._admit(visit, own)
        if trial.same not in self._open_trials:
            self._postponed.settle(trial.same)

    # -- requests of pages ---------------------------------------------------------------------------------

    def _may_request(self, url: str) -> bool:
        """Tell whether a page may request a URL: the scope of requisites, and a host of this machine."""
        crawl, host = self._crawl, host_of(url)
        queue = crawl.queues.get(host)
        if crawl.is_ending or not crawl.ownership.owns(host) or (queue is not None and queue.parked):
            return False
        if trap_of(url, crawl.config.limits) is not None:
            return False
        return crawl.compiled.wants_link(url, 0, BY_REQUISITE)

    def note_request(self, visit: ActiveVisit) -> None:
        """Take the answer to a request of a page."""
        self.requests.note_end(visit)

    def is_awaited(self, url: str) -> bool:
        """Tell whether a page waits for the answer to a request."""
        return self.requests.is_awaited(url)

    def refuse_host(self, host: str) -> None:
        """Fail the requests of pages to a host that gets none any more."""
        self.requests.refuse_host(host)

    def abandon(self) -> list[ActiveVisit]:
        """Give up all pages that wait, because the crawl ends; they are fetched again in the next run.

        Those that a parse child reads again end as usual: their texts are complete.
        """
        visits = [visit for visit in self._under_way if visit not in self._rereads]
        self._trials.clear()
        self._open_trials.clear()
        self._after_trials.clear()
        self._held.clear()
        self._asked.clear()
        for url, record in self._postponed.take_all():
            self._crawl.store_postponed(url, host_of(url), [record])
        for visit in visits:
            self._end(visit, None)
        self.requests.give_up()
        return visits


def _keep_capture(visit: ActiveVisit, why: str) -> None:
    """Let a page whose last capture was rendered keep it: as received, it would lose its text."""
    if visit.item.is_rendered:
        visit.outcome, visit.detail = Outcome.NOT_RENDERED, f"not rendered: {why}"


def _size(visit: ActiveVisit) -> int:
    """Return the memory of a page that waits: as received, and as it was read."""
    received = 0 if visit.fetched is None else len(visit.fetched.body)
    return received + (0 if visit.static is None else len(visit.static.members) + len(visit.static.entry))


def _key(kind: RenderKind) -> int:
    """Return the number under which a kind of a host is stored."""
    return key_of(f"{kind.pattern} {kind.scripts} {int(kind.is_empty)}")


def _page_answer(fetched: Fetched, limits: LimitSettings) -> BrowserAnswer:
    """Return an answer as the browser gets it; in a thread of its own, because it may be large."""
    headers = parse_head(fetched.head).headers
    return BrowserAnswer(fetched.status, headers.fields, decode(headers, fetched.body, limits).payload)
