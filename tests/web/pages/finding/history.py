"""A page with many captures, made without network and time, behind the application."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from teia.clock import WallClock
from teia.store.root import open_root
from teia.web.access.accounts import Accounts
from teia.web.server.installation import Installation
from tests.crawler.offline import offline_crawl
from tests.web.conftest import QUICK, Web, app_of

PAGE, QUERY, MOVED, OTHER = (
    "http://a.test/",
    "http://a.test/find?b=2&a=%C3%A7",
    "http://a.test/moved",
    "http://www.b.a.test/x",
)
VERSIONS = 25


def make_history(folder: Path) -> dict[str, float]:
    """Crawl a page VERSIONS times at random times; return its texts with the times of their first captures."""
    links = f'<a href="{QUERY}">q</a><a href="{MOVED}">m</a><a href="{OTHER}">o</a>'
    web = {PAGE: f"version 0 {links}", QUERY: "answers", MOVED: f"-> {PAGE}", OTHER: "other"}
    chance, times = random.Random(7), dict[str, float]()
    with offline_crawl(web, folder, PAGE) as crawl:
        times[web[PAGE]] = crawl.clock.now_s() + 0.0
        crawl.run()
        for number in range(1, VERSIONS):
            asyncio.run(crawl.clock.advance(chance.uniform(100.0, 1e6)))
            # Every fifth visit finds the page unchanged, and stores a revisit record.
            if number % 5:
                web[PAGE] = f"version {number} {links}"
            times.setdefault(web[PAGE], crawl.clock.now_s())
            crawl.revisit_only(PAGE)
    return times


@contextmanager
def serve_history(folder: Path) -> Iterator[Web]:
    clock = WallClock()
    installation = Installation(open_root(folder / "data"), clock, Accounts(folder / "web.sqlite", clock, QUICK))
    yield Web(app_of(installation), installation)
    installation.close()
