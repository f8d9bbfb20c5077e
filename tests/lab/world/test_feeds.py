"""Feeds: valid RSS and Atom, newest first, found from the pages."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from xml.etree import ElementTree as ET

from teia.clock import from_iso
from teia.lab.world import truth
from tests.lab.worlds import DAY_S, EPOCH_S, fetch, make_world

ATOM = {"a": "http://www.w3.org/2005/Atom"}
NOW_S = EPOCH_S + 30 * DAY_S


def test_feeds_tell_the_latest_meaningful_changes() -> None:
    world = make_world(pages=2_000, hosts=20, feeds__rss=0.5, feeds__atom=0.5, feeds__items=10)
    for host in world.hosts:
        root = world.roots[host.name].decode()
        answer = fetch(world, f"{root}feed.xml", NOW_S)
        tree = ET.fromstring(answer.body)
        if host.feed == "rss":
            assert b"application/rss+xml" in answer.headers
            urls = [str(item.findtext("link")) for item in tree.iterfind("channel/item")]
            dates = [str(item.findtext("pubDate")) for item in tree.iterfind("channel/item")]
            times = [parsedate_to_datetime(date).timestamp() for date in dates]
        else:
            assert b"application/atom+xml" in answer.headers
            entries = tree.findall("a:entry", ATOM)
            urls = [str(link.get("href")) for entry in entries for link in entry.iterfind("a:link", ATOM)]
            times = [from_iso(str(entry.findtext("a:updated", None, ATOM))) for entry in entries]
        assert 1 <= len(urls) <= 10
        assert times == sorted(times, reverse=True)
        for url, time_s in zip(urls, times, strict=True):
            line = truth.find_line(world, url, NOW_S)
            assert line is not None
            assert int(from_iso(line.meaningful[-1])) == time_s
        assert b"/feed.xml" in fetch(world, root).body


def test_hosts_without_a_feed_answer_404_and_do_not_mention_one() -> None:
    world = make_world(pages=300, feeds__rss=0.0, feeds__atom=0.0)
    assert fetch(world, world.seeds()[0] + "feed.xml").status == 404
    assert b"feed.xml" not in fetch(world, world.seeds()[0]).body
