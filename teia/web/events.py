"""Live pages: `GET /events?topics=status&c=NAME`, a stream of what changed (server-sent events).

A stream begins with everything, and then has at most one event a second, only when something is other than before. What
an event holds is the JSON twin of the page, so a page that may not have a stream asks for that instead. Browsers open
six connections to a site: so streams are few. A session has four; the oldest is told to `yield`, and its page polls.
Topics are made once a moment for all who listen, by a thread, so a hundred readers cost the disk as much as one.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Annotated, Any

from fastapi import Depends, Query, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent

from teia.clock import iso_utc
from teia.crawl.freshness import freshness_of
from teia.crawl.pageview import entry_of, next_due
from teia.crawl.waiting import why_waiting
from teia.errors import TeiaError, UsageError
from teia.web import limits
from teia.web.choosing import language_of
from teia.web.gate import COOKIE, Refused, Visitor
from teia.web.pages import bulk, cluster, collections, freshness, frontier, hosts, lab, monitor
from teia.web.phrases import Phrases
from teia.web.rendering import phrases_for
from teia.web.roles import Role
from teia.web.site import Site
from teia.web.twins import OfSite, OfVisitor, Pages

TOPICS_AT_ONCE = 4
REPEAT_S = 10.0
"""A stream in which nothing changes says the same again after so long, so that its page knows it is alive."""

REMEMBERED = 200


@dataclass(frozen=True, slots=True)
class Topic:
    """What can be listened to: how it is made for a collection and a name in it, how often at most, by whom."""

    make: Callable[[Site, str, str], Any]
    every_s: float = limits.EVENT_S
    role: Role = Role.VIEWER


TOPICS: dict[str, Topic] = {
    "status": Topic(lambda site, c, _: monitor.moment(site, c)),
    "collections": Topic(lambda site, _, __: collections.collections(site), 2.0),
    "host": Topic(lambda site, c, host: hosts.live_host(site, c, host)),
    "bulk": Topic(lambda site, c, query: bulk.moment(site, c, query), role=Role.OPERATOR),
    "frontier": Topic(lambda site, c, _: frontier.counts(site, c), 5.0),
    "freshness": Topic(lambda site, c, _: freshness.pair(site, c), 10.0),
    "cluster": Topic(lambda site, _, c: cluster.moment(site, c)),
    "lab": Topic(lambda site, _, number: lab.moment(site, number)),
    "page": Topic(lambda site, c, url: live_page(site, c, url), role=Role.PUBLIC),
}
SENTENCES = ("why_waiting", "failed")
"""What records of topics hold that people read."""

OF_ALL = frozenset({"collections", "cluster", "lab"})
"""Topics that are not of one collection."""


def live_page(site: Site, collection: str, url: str) -> dict[str, Any]:
    """What changes of a page by itself: is our copy current, when is it visited next, what does it wait for."""
    now_s, config = site.clock.now_s(), site.config(collection)
    with site.lookup(collection) as lookup:
        entry = entry_of(lookup, url, config)
        fresh = freshness_of(lookup.cells[entry.cell], entry.host, entry.host_id, entry.key, now_s)
        return {
            "state": entry.state,
            "shown_state": entry.outcome if entry.state == "done" and entry.outcome else entry.state,
            "outcome": entry.outcome or None,
            "last_visit": None if entry.page is None else iso_utc(entry.page.last_visit_s),
            "visits": 0 if entry.page is None else entry.page.visits,
            "next_due": next_due(entry),
            "why_waiting": why_waiting(lookup, entry, now_s),
            "fresh_probability": None if fresh is None else fresh.fresh_probability,
        }


@dataclass(slots=True, eq=False)
class Stream:
    """One open stream; `is_over` is set when it has to yield."""

    session: str
    is_over: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class _Said:
    at: float
    text: str


class Hub:
    """All open streams of a server, and what was last said of each topic; lives on the event loop."""

    def __init__(self) -> None:
        self.streams: OrderedDict[Stream, None] = OrderedDict()
        self._said: OrderedDict[tuple[str, str, str], asyncio.Task[_Said]] = OrderedDict()

    def enter(self, session: str) -> Stream:
        """Open a stream; where there are too many of a session, or in all, the oldest has to yield."""
        own = [stream for stream in self.streams if stream.session == session]
        for stream in own[: max(0, len(own) - limits.STREAMS_PER_SESSION + 1)]:
            self._end(stream)
        while len(self.streams) >= limits.STREAMS:
            self._end(next(iter(self.streams)))
        stream = Stream(session)
        self.streams[stream] = None
        return stream

    def leave(self, stream: Stream) -> None:
        self.streams.pop(stream, None)

    def _end(self, stream: Stream) -> None:
        stream.is_over.set()
        self.leave(stream)

    async def say(self, site: Site, name: str, collection: str, of: str) -> str:
        """What a topic is now, as JSON; made at most once in its time, whoever asks."""
        key, topic = (name, collection, of), TOPICS[name]
        task = self._said.get(key)
        if task is None or (task.done() and not _is_good(task, site.clock.ticks_s() - 0.9 * topic.every_s)):
            task = asyncio.create_task(asyncio.to_thread(_made, site, topic, collection, of))
            self._said[key] = task
            self._said.move_to_end(key)
            while len(self._said) > REMEMBERED:
                self._said.popitem(last=False)
        return (await asyncio.shield(task)).text


def _is_good(task: asyncio.Task[_Said], since: float) -> bool:
    return not task.cancelled() and task.exception() is None and task.result().at >= since


def _made(site: Site, topic: Topic, collection: str, of: str) -> _Said:
    at, made = site.clock.ticks_s(), topic.make(site, collection, of)
    return _Said(at, json.dumps(asdict(made) if is_dataclass(made) and not isinstance(made, type) else made))


def add_to(pages: Pages) -> None:
    pages.add("GET", "/events", Role.PUBLIC, events, response_class=EventSourceResponse, include_in_schema=False)


def wanted(
    site: OfSite,
    visitor: OfVisitor,
    topics: Annotated[str, Query(max_length=100)] = "",
    c: Annotated[str, Query(max_length=100)] = "",
) -> list[str]:
    """The topics that were asked for, if there are such and the visitor may hear them; refused before it begins."""
    names = list(dict.fromkeys(name for name in topics.split(",") if name))
    unknown = [name for name in names if name not in TOPICS]
    if unknown or not 0 < len(names) <= TOPICS_AT_ONCE:
        raise UsageError(f"topics={topics!r}: give 1 to {TOPICS_AT_ONCE} of {', '.join(TOPICS)}")
    least = max(TOPICS[name].role for name in names)
    if not visitor.may(least):
        raise Refused(403 if visitor.name else 401, f"this needs the role {least.word}", "sign in")
    if c or not OF_ALL.issuperset(names):
        site.check(c)
    return names


async def entered(
    request: Request, visitor: OfVisitor, names: Annotated[list[str], Depends(wanted)]
) -> AsyncIterator[tuple[Stream, list[str]]]:
    """An open stream and its topics. It is left however the answer ends, also where nobody takes it to its end."""
    hub: Hub = request.app.state.hub
    stream = hub.enter(_session(request, visitor))
    try:
        yield stream, names
    finally:
        hub.leave(stream)


async def events(
    request: Request,
    site: OfSite,
    visitor: OfVisitor,
    opened: Annotated[tuple[Stream, list[str]], Depends(entered)],
    c: Annotated[str, Query(max_length=100)] = "",
    of: Annotated[str, Query(max_length=limits.TOPIC_CHARS)] = "",
) -> AsyncIterator[ServerSentEvent]:
    """What changes of some topics, for as long as somebody listens."""
    hub: Hub = request.app.state.hub
    stream, names = opened
    phrases = phrases_for(language_of(request, visitor).tag)
    async for event in _told(hub, stream, site, names, c, of, phrases):
        yield event
    yield ServerSentEvent(event="yield", data=None, raw_data="")


async def _told(
    hub: Hub, stream: Stream, site: Site, names: list[str], c: str, of: str, phrases: Phrases | None = None
) -> AsyncIterator[ServerSentEvent]:
    said: dict[str, _Said] = {}
    while not stream.is_over.is_set():
        for name in names:
            now = site.clock.ticks_s()
            before = said.get(name)
            if before is not None and now - before.at < TOPICS[name].every_s:
                continue
            try:
                text = await hub.say(site, name, c, of)
            except TeiaError as error:
                text = json.dumps({"error": str(error)})
            if before is None or text != before.text or now - before.at >= REPEAT_S:
                said[name] = _Said(now, text)
                yield ServerSentEvent(event=name, raw_data=text if phrases is None else _in_words(text, phrases))
        try:
            async with asyncio.timeout(limits.EVENT_S):
                await stream.is_over.wait()
        except TimeoutError:
            continue


def _in_words(text: str, phrases: Phrases) -> str:
    """A record with its sentences as the reader's language has them, under `said`; the record itself is as in JSON."""
    record = json.loads(text)
    told = {key: phrases.said(record[key]) for key in SENTENCES if record.get(key)}
    return json.dumps(record | {"said": {key: said for key, said in told.items() if said is not None}})


def _session(request: Request, visitor: Visitor) -> str:
    """Who a stream counts for: the browser that is signed in, the program, or the address."""
    asker = request.client.host if request.client is not None else ""
    return request.cookies.get(COOKIE, "") or visitor.name or asker
