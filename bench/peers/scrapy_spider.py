"""The Scrapy side of the comparison; runs in its own environment: `python scrapy_spider.py URL PATTERN AT_ONCE`."""

from __future__ import annotations

import sys
from urllib.parse import urlsplit

from scrapy.crawler import CrawlerProcess
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

SEED, PATTERN, AT_ONCE = sys.argv[1], sys.argv[2], int(sys.argv[3])


class Links(CrawlSpider):  # type: ignore[misc]  # Scrapy is not installed where types are checked
    """Follow every link that matches, store nothing: as Scrapy's documentation shows it."""

    name = "links"
    start_urls = (SEED,)
    # Without this the spider follows links to every other site; the comparison stays on loopback.
    allowed_domains = (urlsplit(SEED).hostname,)
    rules = (Rule(LinkExtractor(allow=PATTERN, allow_domains=urlsplit(SEED).netloc), follow=True),)


process = CrawlerProcess(
    {
        "CONCURRENT_REQUESTS": AT_ONCE,
        "CONCURRENT_REQUESTS_PER_DOMAIN": AT_ONCE,
        "DOWNLOAD_DELAY": 0,
        "LOG_LEVEL": "ERROR",
        "ROBOTSTXT_OBEY": True,
        "TELNETCONSOLE_ENABLED": False,
    }
)
process.crawl(Links)
process.start()
