"""WebSub on nodes: the owner of a feed subscribes, and its hub may call at any node's server."""

from __future__ import annotations

import asyncio
import hmac
import socket
from contextlib import ExitStack
from pathlib import Path

from teia.crawler.signals_in.websub import states_in
from teia.signals.announce import counts_in
from teia.store.root import open_root
from tests.crawler.webs import ScriptedWeb, WorldAnswer, html, robots, text_of
from tests.waiting import until_async
from tests.web.pages.inbound.test_websub import ENTRY, TYPE, Hub, call, served

from .conftest import Nats
from .test_signals_nodes import HOSTS, run, two_nodes

FEED = '<feed xmlns="http://www.w3.org/2005/Atom"><title>x</title>{links}{entries}</feed>'


FEEDS = HOSTS[:4]
"""Hosts with a feed; some are of either node."""


def site(number: int, hub: str) -> dict[str, WorldAnswer]:
    feed = FEED.format(links=f'<link rel="hub" href="{hub}"/>', entries=ENTRY.format(at="/old"))
    links = ["/feed.xml"] if HOSTS[number] in FEEDS else []
    pages = {"/": html(*links, text=text_of(number)), "/feed.xml": WorldAnswer(200, TYPE, feed.encode())}
    return {**pages, "/old": html(), "/new": html(), "/robots.txt": robots("")}


def test_a_hub_may_call_at_any_node(own_nats: Nats, tmp_path: Path) -> None:
    async def main() -> None:
        with ExitStack() as stack:
            bound = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            hub = stack.enter_context(Hub())
            web = ScriptedWeb({host: site(number, hub.url) for number, host in enumerate(HOSTS)})
            base = f"http://127.0.0.1:{bound.getsockname()[1]}"
            flags = f'websub = "{base}"\n'
            async with two_nodes(web, tmp_path, own_nats, flags) as nodes:
                roots = [open_root(nodes.data(name)) for name in "ab"]
                folders = [root.collection("main") for root in roots]
                stack.enter_context(served(roots[1], bound))  # b's server alone

                def states() -> list[dict[str, int]]:
                    return [dict(states_in(folder)) for folder in folders]

                await until_async(
                    lambda: sum(each.get("active", 0) for each in states()) == len(FEEDS), within_s=40, state=states
                )
                assert all(states()), "each node has the subscriptions of its own hosts"
                await until_async(lambda: hub.said == [(200, b"c-42")] * len(FEEDS))
                pushes = []
                for form in hub.asked:
                    at = form["hub.topic"].rpartition("/")[0]
                    body = FEED.format(links="", entries=ENTRY.format(at=f"{at}/new")).encode()
                    signed = "sha256=" + hmac.new(form["hub.secret"].encode(), body, "sha256").hexdigest()
                    how = {"Content_Type": "application/atom+xml", "X_Hub_Signature": signed}
                    pushes += [asyncio.to_thread(call, form["hub.callback"], text, **how) for text in (body, b"no")]
                assert {status for status, _ in await asyncio.gather(*pushes)} == {202}
                await until_async(lambda: set(nodes.asked("/new")) == set(FEEDS), within_s=30)
                counts = counts_in(folders[1].signals)["websub"]
                assert (counts["forged"], counts["received"]) == (len(FEEDS), 2 * len(FEEDS))

    run(main)
