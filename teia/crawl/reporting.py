"""The crawler's side of `control.sqlite`: it listens for commands and tells how it stands, beside the loop."""

from __future__ import annotations

from dataclasses import asdict

from teia.clock import Clock
from teia.crawl.control import ACCOUNT_S, POLL_S, Control
from teia.crawl.engine import Crawler
from teia.crawl.summary import summarize
from teia.store.root import Root


async def listen(crawler: Crawler, root: Root, clock: Clock) -> None:
    """Obey commands and write accounts until cancelled; the runs end with it."""
    control = Control(root.path / "control.sqlite")
    began = clock.ticks_s()
    for crawl in crawler.crawls:
        control.begin(crawl.name, clock.now_s())
    try:
        accounts_at = began
        while True:
            for crawl in crawler.crawls:
                crawler.obey(control.take(crawl.name, clock.now_s()), crawl)
            if clock.ticks_s() >= accounts_at:
                accounts_at = clock.ticks_s() + ACCOUNT_S
                for crawl in crawler.crawls:
                    account = asdict(summarize(crawl, clock.ticks_s() - began))
                    control.account(crawl.name, account, clock.now_s())
            await clock.sleep(POLL_S)
    finally:
        for crawl in crawler.crawls:
            control.end(crawl.name)
        control.close()
