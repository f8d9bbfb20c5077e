"""Live pages: `GET /events?topics=status&c=NAME`, a stream of changes (server-sent events).

A stream begins with the full state. Then it sends at most one event a second, and only if something changed. An event
holds the JSON of the page, so a page that gets no stream can poll that instead. Browsers open six connections to a
site, so streams are limited: a session has four, and the oldest is sent `yield`, after which its page polls. A thread
computes each topic once per interval for all listeners, so a hundred readers cost the disk as much as one.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from typing import Annotated, Any

from fastapi import Depends, Query, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent

from teia.clock import iso_utc
from teia.crawler.keep_fresh.estimate import freshness_of
from teia.errors import TeiaError, UsageError
from teia.lib.message import Message
from teia.views.page import find_entry, next_due
from teia.views.why_waiting import why_waiting
from teia.web import limits
from teia.web.access.roles import Role
from teia.web.language.numbers import ENGLISH
from teia.web.language.translate import Translator, translator_for
from teia.web.pages.collection import bulk, collections, freshness, monitor, queue
from teia.web.pages.collection import host as collection_host
from teia.web.pages.finding import page
from teia.web.pages.lab import runs
from teia.web.pages.machine import cluster
from teia.web.server.auth import COOKIE, Refused, Visitor
from teia.web.server.installation import Installation
from teia.web.server.json_routes import InstallationDep, PageRoutes, VisitorDep
from teia.web.server.preferences import language_of

TOPICS_AT_ONCE = 4
REPEAT_S = 10.0
"""A stream without changes repeats its last event after this time, so that its page knows it is alive."""

MAX_STATES = 200


@dataclass(frozen=True, slots=True)
class EventTopic:
    """Topic of events: its function of a collection and a name in it, its least interval, and the role it needs."""

    make: Callable[[Installation, str, str], Any]
    interval_s: float = limits.EVENT_S
    role: Role = Role.VIEWER


TOPICS: dict[str, EventTopic] = {
    "status": EventTopic(lambda installation, c, _: monitor.live_status(installation, c)),
    "collections": EventTopic(lambda installation, _, __: collections.collections(installation), 2.0),
    "host": EventTopic(lambda installation, c, host: collection_host.live_host(installation, c, host)),
    "bulk": EventTopic(lambda installation, c, query: bulk.live_bulk(installation, c, query), role=Role.OPERATOR),
    "frontier": EventTopic(lambda installation, c, _: queue.live_queue(installation, c), 5.0),
    "freshness": EventTopic(lambda installation, c, _: freshness.live_freshness(installation, c), 10.0),
    "cluster": EventTopic(lambda installation, _, c: cluster.live_cluster(installation, c)),
    "lab": EventTopic(lambda installation, _, number: runs.live_run(installation, number)),
    "page": EventTopic(lambda installation, c, url: live_page(installation, c, url), role=Role.PUBLIC),
}
GLOBAL_TOPICS = frozenset({"collections", "cluster", "lab"})
"""Topics that do not belong to one collection."""


def live_page(installation: Installation, collection: str, url: str) -> dict[str, Any]:
    """Return the live part of a URL's page: freshness, next visit, and the reason why it waits."""
    now_s, config = installation.clock.now_s(), installation.config(collection)
    with installation.lookup(collection) as lookup:
        entry = find_entry(lookup, url, config)
        expected = page.expected_visit(installation, collection, entry.url) if entry.state == "queued" else None
        fresh = freshness_of(lookup.cells, entry.cell, entry.host, entry.host_id, entry.key, now_s)
        return {
            "state": entry.state,
            "shown_state": entry.outcome if entry.state == "done" and entry.outcome else entry.state,
            "outcome": entry.outcome or None,
            "last_visit": None if entry.page is None else iso_utc(entry.page.last_visit_s),
            "visits": 0 if entry.page is None else entry.page.visits,
            "next_due": next_due(entry),
            "expected": expected,
            "why_waiting": why_waiting(lookup, entry, now_s),
            "fresh_probability": None if fresh is None else fresh.fresh_probability,
        }


@dataclass(slots=True, eq=False)
class Stream:
    """One open stream; `is_over` is set when it has to yield."""

    session: str
    is_over: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class _TopicState:
    """State of a topic at a time as JSON, and the messages among its values."""

    at: float
    text: str
    messages: dict[str, Message]


class Hub:
    """All open streams of a server, and the last state of each topic; used on the event loop only."""

    def __init__(self) -> None:
        self.streams: OrderedDict[Stream, None] = OrderedDict()
        self._tasks: OrderedDict[tuple[str, str, str], asyncio.Task[_TopicState]] = OrderedDict()

    def open_stream(self, session: str) -> Stream:
        """Open a stream; if a session, or the server, has too many, make the oldest yield."""
        own = [stream for stream in self.streams if stream.session == session]
        # One more than the limit requires, to make room for the new stream.
        for stream in own[: max(0, len(own) - limits.STREAMS_PER_SESSION + 1)]:
            self._end(stream)
        while len(self.streams) >= limits.STREAMS:
            self._end(next(iter(self.streams)))
        stream = Stream(session)
        self.streams[stream] = None
        return stream

    def close_stream(self, stream: Stream) -> None:
        self.streams.pop(stream, None)

    def _end(self, stream: Stream) -> None:
        stream.is_over.set()
        self.close_stream(stream)

    async def current_state(self, installation: Installation, name: str, collection: str, of: str) -> _TopicState:
        """Return the current state of a topic; it is computed once per interval for all streams."""
        key, topic = (name, collection, of), TOPICS[name]
        task = self._tasks.get(key)
        # 0.9: a stream that wakes up slightly early must not get the state of the interval before.
        if task is None or (
            task.done() and not _is_recent(task, installation.clock.ticks_s() - 0.9 * topic.interval_s)
        ):
            task = asyncio.create_task(asyncio.to_thread(_compute_state, installation, topic, collection, of))
            self._tasks[key] = task
            self._tasks.move_to_end(key)
            while len(self._tasks) > MAX_STATES:
                self._tasks.popitem(last=False)
        # Shielded: a client that disconnects must not cancel the task that other streams wait for.
        return await asyncio.shield(task)


def _is_recent(task: asyncio.Task[_TopicState], since: float) -> bool:
    return not task.cancelled() and task.exception() is None and task.result().at >= since


def _compute_state(installation: Installation, topic: EventTopic, collection: str, of: str) -> _TopicState:
    at, made = installation.clock.ticks_s(), topic.make(installation, collection, of)
    return _topic_state(at, asdict(made) if is_dataclass(made) and not isinstance(made, type) else made)


def _topic_state(at: float, record: dict[str, Any]) -> _TopicState:
    messages = {key: each for key, each in record.items() if isinstance(each, Message)}
    return _TopicState(at, json.dumps(record), messages)


def add_routes(pages: PageRoutes) -> None:
    pages.add("GET", "/events", Role.PUBLIC, events, response_class=EventSourceResponse, include_in_schema=False)


def requested_topics(
    installation: InstallationDep,
    visitor: VisitorDep,
    topics: Annotated[str, Query(max_length=100)] = "",
    c: Annotated[str, Query(max_length=100)] = "",
) -> list[str]:
    """Return the requested topics; refuse unknown ones and those above the visitor's role before the stream begins."""
    names = list(dict.fromkeys(name for name in topics.split(",") if name))
    unknown = [name for name in names if name not in TOPICS]
    if unknown or not 0 < len(names) <= TOPICS_AT_ONCE:
        raise UsageError(f"topics={topics!r}: must be 1 to {TOPICS_AT_ONCE} of {', '.join(TOPICS)}")
    least = max(TOPICS[name].role for name in names)
    if not visitor.may(least):
        raise Refused(
            403 if visitor.name else 401, Message("this requires the role {role}", role=least.word), Message("sign in")
        )
    # A named collection must be visible to the visitor, even if the topic does not need one.
    if c or not GLOBAL_TOPICS.issuperset(names):
        installation.check(c)
    return names


async def opened_stream(
    request: Request, visitor: VisitorDep, names: Annotated[list[str], Depends(requested_topics)]
) -> AsyncIterator[tuple[Stream, list[str]]]:
    """Open a stream for the topics; close it however the response ends, even if the client never reads it."""
    hub: Hub = request.app.state.hub
    stream = hub.open_stream(_session_key(request, visitor))
    try:
        yield stream, names
    finally:
        hub.close_stream(stream)


async def events(
    request: Request,
    installation: InstallationDep,
    visitor: VisitorDep,
    opened: Annotated[tuple[Stream, list[str]], Depends(opened_stream)],
    c: Annotated[str, Query(max_length=100)] = "",
    of: Annotated[str, Query(max_length=limits.TOPIC_CHARS)] = "",
) -> AsyncIterator[ServerSentEvent]:
    """Stream the changes of some topics until the client disconnects."""
    hub: Hub = request.app.state.hub
    stream, names = opened
    locale = language_of(request, visitor)
    translator = None if locale is ENGLISH else translator_for(locale.tag)
    async for event in _stream_events(hub, stream, installation, names, c, of, translator):
        yield event
    yield ServerSentEvent(event="yield", data=None, raw_data="")


async def _stream_events(
    hub: Hub,
    stream: Stream,
    installation: Installation,
    names: list[str],
    c: str,
    of: str,
    translator: Translator | None = None,
) -> AsyncIterator[ServerSentEvent]:
    sent: dict[str, _TopicState] = {}
    while not stream.is_over.is_set():
        for name in names:
            now = installation.clock.ticks_s()
            before = sent.get(name)
            if before is not None and now - before.at < TOPICS[name].interval_s:
                continue
            try:
                state = await hub.current_state(installation, name, c, of)
            except TeiaError as error:
                # The stream stays open: the next state may be readable again.
                state = _topic_state(now, {"error": error.message})
            if before is None or state.text != before.text or now - before.at >= REPEAT_S:
                sent[name] = replace(state, at=now)
                text = state.text if translator is None else _with_translations(state, translator)
                yield ServerSentEvent(event=name, raw_data=text)
        try:
            async with asyncio.timeout(limits.EVENT_S):
                await stream.is_over.wait()
        except TimeoutError:
            continue


def _with_translations(state: _TopicState, translator: Translator) -> str:
    """Add translations of a record's messages under `said`; the record itself stays as in JSON."""
    said = {key: translator.translate(each) for key, each in state.messages.items()}
    return json.dumps(json.loads(state.text) | {"said": said})


def _session_key(request: Request, visitor: Visitor) -> str:
    """Return the key by which streams are counted: the session cookie, the token's user, or the address."""
    client = request.client.host if request.client is not None else ""
    return request.cookies.get(COOKIE, "") or visitor.name or client
