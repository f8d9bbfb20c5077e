"""The Crawlee side of the comparison; runs in its own environment: `python crawlee_crawler.py URL PATTERN AT_ONCE`."""

from __future__ import annotations

import asyncio
import logging
import re
import sys

from crawlee import ConcurrencySettings, service_locator
from crawlee.crawlers import BeautifulSoupCrawler, BeautifulSoupCrawlingContext
from crawlee.storage_clients import MemoryStorageClient

SEED, PATTERN, AT_ONCE = sys.argv[1], re.compile(sys.argv[2]), int(sys.argv[3])


async def main() -> None:
    service_locator.set_storage_client(MemoryStorageClient())
    crawler = BeautifulSoupCrawler(
        concurrency_settings=ConcurrencySettings(
            min_concurrency=AT_ONCE, desired_concurrency=AT_ONCE, max_concurrency=AT_ONCE
        ),
        respect_robots_txt_file=True,
        max_request_retries=0,
        configure_logging=False,
    )

    @crawler.router.default_handler
    async def follow(context: BeautifulSoupCrawlingContext) -> None:
        await context.enqueue_links(include=[PATTERN])

    await crawler.run([SEED])


logging.disable(logging.CRITICAL)
asyncio.run(main())
