"""robots.txt: any bytes are read, stored rules are the same rules, and the answers agree."""

from __future__ import annotations

from contextlib import suppress

from teia.fetch.robots import MAX_DELAY_S, MAX_SITEMAPS, RobotsRules, parse_robots
from teia.urls import canonicalize
from tests.fuzz.pieces import Pieces

SEEDS = (
    b"/a/b?c\xffUser-agent: *\nDisallow: /a\nAllow: /a/b$\nCrawl-delay: 2.5\nSitemap: http://a.test/s.xml\n",
    b"/p/x.gif\xffuser-agent: teia\r\nuser agent: other\rdissallow: *.gif$\nCrawl-delay: 1e99\n#x\nAllow: /%zz\xe9",
    b"/%C3%A9\xff\xef\xbb\xbfUser-agent: teia\nDisallow: /\xc3\xa9\nDisallow: /*/*/*/*$\n",
    b"/\xff\xff\xfeU\0s\0e\0r\0-\0a\0g\0e\0n\0t\0:\0*\0\n\0D\0i\0s\0a\0l\0l\0o\0w\0:\0/\0",
)


def fuzz_one(data: bytes) -> None:
    pieces = Pieces(data)
    target, body = pieces.text(), pieces.rest()
    rules = parse_robots(body, "teia", checked_s=12.5)
    stored = RobotsRules.from_bytes(rules.to_bytes())
    assert stored == rules, "stored rules are other rules"
    assert rules.crawl_delay_s is None or 0 <= rules.crawl_delay_s <= MAX_DELAY_S
    assert len(rules.sitemaps) <= MAX_SITEMAPS
    assert all(line.isascii() and line.isprintable() for line in rules.lines)
    for url in filter(None, (canonicalize(f"http://a.test/{target}"), "http://a.test/", "http://a.test/robots.txt")):
        assert rules.allows(url) == stored.allows(url)
        line = rules.line_for(url)
        assert not line or line in rules.lines
        if not rules.allows(url):
            assert line.startswith("Disallow"), "refused by no line"
    shorter = parse_robots(body, "teia", limit_bytes=len(body) // 2)
    assert len(shorter.lines) <= 2 * len(body)
    with suppress(ValueError):
        RobotsRules.from_bytes(body)
