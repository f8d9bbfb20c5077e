"""WebSub over real sockets: a crawl finds the hub of a feed, the hub asks back and pushes, the pages are visited."""

from __future__ import annotations

import asyncio
import hmac
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlencode

import uvicorn

from teia.clock import WallClock
from teia.crawler.signals_in.websub import open_collection_hubs, states_in
from teia.lab.world.exchange import WorldAnswer
from teia.notify.process import Notifier
from teia.signals.announce import counts_in
from teia.signals.websub import MAX_PUSH_BYTES, HubTopic
from teia.store.root import Root, open_root
from teia.web.access.accounts import Accounts
from teia.web.app import make_app
from teia.web.server.installation import Installation
from tests.crawler.webs import ScriptedWeb, crawl_web, html
from tests.fetch.receiver import Received, Receiver, Reply
from tests.waiting import until, until_async
from tests.web.conftest import QUICK
from tests.web.test_browser import Served

ENTRY = "<entry><title>n</title><link href='{at}'/><updated>2026-01-01T00:00:00Z</updated></entry>"
TYPE = b"Content-Type: application/atom+xml\r\n"


class Hub(Receiver):
    """A hub as the recommendation has it: asks back before it answers, then pushes; remembers what it was told."""

    def __init__(self) -> None:
        super().__init__(self._asked)
        self.asked: list[dict[str, str]] = []
        self.said: list[tuple[int, bytes]] = []

    def _asked(self, received: Received) -> Reply:
        form = {name: values[0] for name, values in parse_qs(received.body.decode()).items()}
        self.asked.append(form)
        query = {"hub.mode": form["hub.mode"], "hub.topic": form["hub.topic"], "hub.challenge": "c-42"}
        self.said.append(call(f"{form['hub.callback']}?{urlencode({**query, 'hub.lease_seconds': '864000'})}"))
        return Reply(202)


def call(url: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, named), timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


@contextmanager
def served(root: Root, bound: socket.socket) -> Iterator[None]:
    clock = WallClock()
    installation = Installation(root, clock, Accounts(root.path / "web.sqlite", clock, QUICK))
    server = Served(uvicorn.Config(make_app(installation), log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, args=([bound],))
    thread.start()
    until(lambda: server.started, "the server listens")
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(20)
        installation.close()


def notifier_round(root: Root) -> None:
    async def turn() -> None:
        notifier = Notifier(root, WallClock())
        try:
            await notifier.run_round()
            await until_async(lambda: not notifier.under_way, "the hub answers")
        finally:
            await notifier.close()

    asyncio.run(turn())


def topic_of(root: Root) -> HubTopic:
    with open_collection_hubs(root.collection("main")) as hubs:
        (topic,) = hubs.all()
    return topic


def test_a_hub_is_requested_verified_and_followed_and_forged_pushes_are_refused(tmp_path: Path) -> None:
    bound = socket.create_server(("127.0.0.1", 0))
    base = f"http://127.0.0.1:{bound.getsockname()[1]}"
    with bound, Hub() as hub:
        links = f'<link rel="hub" href="{hub.url}"/>'
        feed = f'<feed xmlns="http://www.w3.org/2005/Atom"><title>x</title>{links}{ENTRY.format(at="/old")}</feed>'
        pages = {
            "/": html("/feed.xml"),
            "/feed.xml": WorldAnswer(200, TYPE, feed.encode()),
            "/old": html(),
            "/new": html(),
        }
        web = ScriptedWeb({"f.test": pages})
        first = crawl_web(web, tmp_path, "f.test/", signals__websub=base)
        root = open_root(first.data)
        folder = root.collection("main")
        assert states_in(folder) == {"wanted": 1}
        key = topic_of(root).key
        with served(root, bound):
            early = urlencode({"hub.mode": "subscribe", "hub.topic": topic_of(root).topic, "hub.challenge": "x"})
            assert call(f"{base}/websub/main/{key}?{early}")[0] == 404, "nobody was asked yet"
            notifier_round(root)
            notifier_round(root)
            (form,) = hub.asked
            assert (form["hub.mode"], form["hub.topic"]) == ("subscribe", topic_of(root).feed)
            assert hub.received[0].headers["user-agent"].startswith("teia/")
            assert hub.said == [(200, b"c-42")], "it asked back, over the wire, before it answered"
            assert states_in(folder) == {"active": 1}
            at = topic_of(root).feed.rpartition("/")[0]
            entries = ENTRY.format(at=f"{at}/new") + ENTRY.format(at="http://other.test/x")
            body = f'<feed xmlns="http://www.w3.org/2005/Atom"><title>x</title>{entries}</feed>'.encode()
            signed = "sha256=" + hmac.new(form["hub.secret"].encode(), body, "sha256").hexdigest()
            how = {"Content_Type": "application/atom+xml"}
            callback = form["hub.callback"]
            assert call(callback, body, **how)[0] == 202
            assert call(callback, body + b" ", **how, X_Hub_Signature=signed)[0] == 202
            assert call(callback, b"x" * (MAX_PUSH_BYTES + 1), **how, X_Hub_Signature=signed)[0] == 202
            assert call(callback + "x", body, **how, X_Hub_Signature=signed)[0] == 404
            counts = counts_in(folder.signals)["websub"]
            assert (counts["unsigned"], counts["forged"], counts["oversized"]) == (1, 1, 1)
            assert "received" not in counts, "none of these was heard"
            assert call(callback, body, **how, X_Hub_Signature=signed)[0] == 202
        again = crawl_web(web, tmp_path, "f.test/", port=first.port, refresh__keep=True, limits__seconds=3.0)
    asked = {path for path in again.requested() if "robots" not in path}
    assert {"f.test/feed.xml", "f.test/new"} <= asked, "the feed, and its page that was not known"
    counts = counts_in(folder.signals)["websub"]
    assert (counts["received"], counts["taken"]) == (2, 2)
