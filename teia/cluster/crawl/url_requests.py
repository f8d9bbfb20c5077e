"""Requests about URLs: given to any node, carried out by the node that owns the URLs.

A request is a row of `control.sqlite` of the folder it was given to, until it is done. The node there asks all nodes
for its pending requests, again and again; the node that owns a URL carries its request out and says so. A question or
an answer that is lost is repeated. So a request survives the death of any node, and of NATS.

A bulk action concerns the cells of all nodes, and two at once would overwrite each other's progress there. So it is
written into the agreement, and all nodes run the first one that is not done. Each cell stores its progress in its log,
from which a new owner continues (frontier/cell/bulk.py). A node with a pending action asks for the cells that are done;
when it knows of all of them, it writes the number of URLs into the agreement.

A removal of pages is written into the agreement as well, and never leaves it (cluster/cells/removal.py). The request is
answered when all nodes that live have carried it out.

A hub may call back at any node's server (WebSub). The node that has the subscription judges the call, since it alone
knows the secret; the server that was called does the rest.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from teia.clock import Clock
from teia.cluster.cells.removal import is_complete, removal_result, with_removal
from teia.cluster.crawl.ownership import ownership_of
from teia.cluster.members.agreement import AgreedAction, Agreement
from teia.cluster.members.session import NodeState
from teia.cluster.nats.thread import LoopThread
from teia.cluster.nats.wire import Wire, decode_message
from teia.collections.control_file import RemovePages
from teia.collections.poll_requests import OpenCrawl
from teia.crawler.signals_in.websub import judge_call
from teia.frontier.cell.bulk import BulkSelection
from teia.records import RemovedPages
from teia.signals.websub import HubCall, HubVerdict
from teia.store.root import CollectionFolder
from teia.urls import split

if TYPE_CHECKING:
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

ASK_EVERY_S = 0.5
ASKED_AT_ONCE = 100
"""Most requests in one question; the length of a URL is bounded."""

KEPT_REQUESTS = 10_000
"""Requests that are done and remembered; more than can be pending in a folder."""

KEPT_ACTIONS = 20
"""Bulk actions that are done and stay in the agreement: a node that was away learns their result from it."""


class UrlRequest(msgspec.Struct, frozen=True, array_like=True):
    """A request of a time to visit a page, or to fetch the robots.txt of an origin."""

    url: str
    since_s: float
    is_robots: bool = False


class UrlQuestion(msgspec.Struct, frozen=True, array_like=True):
    """Pending requests of a node, the mark of the bulk action that is to end next, and calls of hubs by mark."""

    reply_to: str
    wanted: list[UrlRequest] = []
    action: str = ""
    calls: dict[str, HubCall] = {}


class UrlAnswer(msgspec.Struct, frozen=True, array_like=True):
    """Requests that a node has carried out, its cells in which a bulk action is done (with the URLs), and verdicts."""

    done: list[UrlRequest] = []
    action: str = ""
    cells: dict[int, int] = {}
    verdicts: dict[str, HubVerdict] = {}


class ClusterRequests:
    """One node's part in requests about URLs (`UrlActions`); lives in the loop of the crawl.

    NATS's callbacks, in the cluster's thread, only fill `_questions` and `_answers`.
    """

    def __init__(
        self, folder: CollectionFolder, shared: str, wire: Wire, thread: LoopThread, clock: Clock,
        agreement: Callable[[], Agreement], amend: Callable[[Callable[[Agreement], Agreement]], Awaitable[None]],
    ) -> None:  # fmt: skip
        self.here: OpenCrawl | None = None
        """The crawl that is open here."""
        self.known_nodes: Callable[[], Mapping[str, NodeState]] = dict
        """Function that returns all nodes of the collection, also those that are down; none before this one joins."""
        self._folder, self._subject = folder, f"teia.asked.{shared}"
        self._wire, self._thread, self._clock = wire, thread, clock
        self._agreement, self._amend = agreement, amend
        self._reply_to = wire.client.new_inbox()
        self._questions: deque[bytes] = deque(maxlen=1_000)
        self._answers: deque[bytes] = deque(maxlen=1_000)
        self._wanted: dict[UrlRequest, None] = {}
        """Requests that are pending here; they are noted anew before each question."""
        self._done: dict[UrlRequest, None] = {}
        """Requests that are done by what nodes answered, or that this node carried out; the last ones."""
        self._calls: dict[str, HubCall] = {}
        self._verdicts: dict[str, HubVerdict] = {}
        """Verdicts on calls of hubs, by mark: judged here, or by other nodes."""
        self._waits_for_action = False
        self._finished: tuple[str, dict[int, int]] = ("", {})
        """The bulk action that is to end next, and the cells in which it is done, with the number of URLs."""
        self._ask_at = 0.0

    async def subscribe(self) -> list[Subscription]:
        """Subscribe to the questions of all nodes, and to answers; runs in the cluster's thread."""

        async def on_question(message: Msg) -> None:
            self._questions.append(message.data)

        async def on_answer(message: Msg) -> None:
            self._answers.append(message.data)

        client = self._wire.client
        asked = await self._wire.request(client.subscribe(self._subject, cb=on_question))
        return [asked, await self._wire.request(client.subscribe(self._reply_to, cb=on_answer))]

    # -- requests that were given here ---------------------------------------------------------------------

    async def visit(self, url: str, since_s: float) -> bool:
        return self._is_done(UrlRequest(url, since_s))

    async def reread_robots(self, origin: str, since_s: float) -> bool:
        return self._is_done(UrlRequest(origin, since_s, is_robots=True))

    def _is_done(self, request: UrlRequest) -> bool:
        is_done = request in self._done
        if not is_done:
            self._wanted[request] = None
        return is_done

    async def run_bulk(self, mark: str, selection: BulkSelection) -> int | None:
        agreed = next((each for each in self._agreement().actions if each.mark == mark), None)
        if agreed is None:
            await self._amend(lambda now: with_action(now, mark, selection))
            return None
        self._waits_for_action = self._waits_for_action or agreed.urls is None
        return agreed.urls

    async def remove(self, number: int, wanted: RemovePages) -> RemovedPages | None:  # noqa: ARG002
        """Have all nodes remove pages (cluster/cells/removal.py); return the result when those that live are done."""
        nodes, removals = self.known_nodes(), self._agreement().removals
        if not nodes:  # this node has not joined yet
            return None
        agreed = next((each for each in removals if each.mark == wanted.mark), None)
        if agreed is None and wanted.may_join:
            same = [each for each in removals if each.rules == wanted.rules]
            agreed = next((each for each in reversed(same) if not is_complete(each, nodes)), None)
        if agreed is None:
            now_s = self._clock.now_s()
            await self._amend(lambda now: with_removal(now, wanted.mark, wanted.rules, now_s))
            return None
        return removal_result(agreed, nodes)

    async def judge_hub_call(self, mark: str, call: HubCall) -> HubVerdict | None:
        self._calls[mark] = call
        return self._verdicts.get(mark)

    # -- between nodes -------------------------------------------------------------------------------------

    async def exchange(self) -> None:
        """Answer the questions of all nodes, take their answers, and ask for the requests that are pending here."""
        action = next_action(self._agreement())
        if action is not None and self.here is not None:
            await self.here.run_bulk(action.mark, action.selection)
        while self._questions:
            question = decode_message(self._questions.popleft(), UrlQuestion)
            answer = await self._answer(question)
            if answer != UrlAnswer():
                await self._publish(question.reply_to, answer)
        while self._answers:
            await self._take(decode_message(self._answers.popleft(), UrlAnswer))
        mark = action.mark if action is not None and self._waits_for_action else ""
        if (self._wanted or mark or self._calls) and self._clock.ticks_s() >= self._ask_at:
            self._ask_at = self._clock.ticks_s() + ASK_EVERY_S
            wanted, calls = list(self._wanted)[:ASKED_AT_ONCE], list(self._calls.items())
            self._wanted, self._calls, self._waits_for_action = {}, {}, False
            if wanted or mark:
                await self._publish(self._subject, UrlQuestion(self._reply_to, wanted, mark))
            for number, call in calls:  # each in a message of its own: a push may be half a megabyte
                await self._publish(self._subject, UrlQuestion(self._reply_to, calls={number: call}))

    async def _answer(self, question: UrlQuestion) -> UrlAnswer:
        """Carry out the requests for URLs that are owned here; return those that are done."""
        for mark, call in question.calls.items():
            if mark not in self._verdicts:  # a hub is confirmed once, however often the question comes
                verdict = await asyncio.to_thread(judge_call, self._folder, call, self._clock.now_s())
                self._note_verdicts({} if verdict is None else {mark: verdict})
        verdicts = {mark: self._verdicts[mark] for mark in question.calls if mark in self._verdicts}
        if self.here is None:
            return UrlAnswer(verdicts=verdicts)
        done = [request for request in question.wanted if await self._is_carried_out(self.here, request)]
        self._note_done(done)
        bulk = self.here.crawl.committer.bulk
        cells = dict(bulk.finished) if question.action and bulk.mark == question.action else {}
        return UrlAnswer(done, question.action if cells else "", cells, verdicts)

    async def _is_carried_out(self, here: OpenCrawl, request: UrlRequest) -> bool:
        # A question that was repeated before its answer came must not cause a second visit.
        if request in self._done:
            return True
        if ownership_of(here.crawl).exchange.cell_of(split(f"{request.url}/").host) is None:
            return False
        act = here.reread_robots if request.is_robots else here.visit
        return await act(request.url, request.since_s)

    def _note_done(self, done: Iterable[UrlRequest]) -> None:
        for request in done:
            self._wanted.pop(request, None)  # else it would be asked for once more
            self._done[request] = None
        _forget_oldest(self._done)

    def _note_verdicts(self, verdicts: Mapping[str, HubVerdict]) -> None:
        self._verdicts |= verdicts
        _forget_oldest(self._verdicts)

    async def _take(self, answer: UrlAnswer) -> None:
        self._note_done(answer.done)
        self._note_verdicts(answer.verdicts)
        action = next_action(self._agreement())
        if action is None or answer.action != action.mark:
            return
        if self._finished[0] != action.mark:
            self._finished = (action.mark, {})
        finished = self._finished[1]
        finished |= answer.cells
        if finished.keys() >= set(range(len(self._agreement().starts))):
            await self._amend(lambda now: with_result(now, action.mark, sum(finished.values())))

    async def _publish(self, subject: str, message: UrlQuestion | UrlAnswer) -> None:
        publishing = self._wire.client.publish(subject, msgspec.msgpack.encode(message))
        await self._thread.call(self._wire.request(publishing))


def _forget_oldest(kept: dict[Any, Any]) -> None:
    for oldest in list(kept)[: max(0, len(kept) - KEPT_REQUESTS)]:
        del kept[oldest]


def next_action(agreement: Agreement) -> AgreedAction | None:
    """Return the bulk action that all nodes run now."""
    return next((each for each in agreement.actions if each.urls is None), None)


def with_action(now: Agreement, mark: str, selection: BulkSelection) -> Agreement:
    """Return the agreement with one more bulk action; unchanged if it has it."""
    if any(each.mark == mark for each in now.actions):
        return now
    done = [each for each in now.actions if each.urls is not None]
    forgotten = done[: max(0, len(done) - KEPT_ACTIONS)]
    kept = [each for each in now.actions if each not in forgotten]
    return msgspec.structs.replace(now, actions=[*kept, AgreedAction(mark, selection)])


def with_result(now: Agreement, mark: str, urls: int) -> Agreement:
    """Return the agreement with the result of a bulk action; unchanged if it has one."""
    actions = [
        msgspec.structs.replace(each, urls=urls) if each.mark == mark and each.urls is None else each
        for each in now.actions
    ]
    return msgspec.structs.replace(now, actions=actions)
