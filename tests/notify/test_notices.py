"""Subscriptions: what there is to tell is found in what was committed, each thing once (T10, F3)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from teia.clock import VirtualClock, WallClock
from teia.config.sections import Config
from teia.errors import StoreError, UsageError
from teia.indexer.process import CollectionFollower
from teia.notify.notices import NoticeFinder
from teia.notify.subscriptions import (
    check_webhook,
    list_subscriptions,
    notices_for_feed,
    open_subscriptions,
    redact_webhook,
    subscribe,
    unsubscribe,
)
from teia.signals.subscriptions import Subscriptions
from teia.store.root import CollectionFolder, open_root
from teia.views.capture_reader import CaptureReader
from tests.crawler.keep_fresh.test_observe import PARAGRAPHS, URL, WEB, Revisited
from tests.crawler.offline import offline_crawl

OTHER = f"{URL}news/1.html"


@pytest.fixture(scope="module")
def copies() -> Iterator[CaptureReader]:
    reader = CaptureReader(WallClock())
    yield reader
    reader.close()


@dataclass
class Watching:
    """A collection whose pages are visited by hand, with subscriptions to them."""

    revisited: Revisited
    copies: CaptureReader
    folder: CollectionFolder

    @property
    def root(self) -> Any:
        return open_root(self.folder.path.parent)

    def subscribe(self, **what: str) -> str:
        return subscribe(self.root, "main", self.revisited.offline.clock, **what).subscription.id

    def store(self) -> Subscriptions:
        return open_subscriptions(self.folder.subscriptions)

    def look(self) -> int:
        """Look as a process would that was just started."""
        store = self.store()
        finder = NoticeFinder(self.root, "main", store, self.copies, self.revisited.offline.clock)
        try:
            return finder.find_notices()
        finally:
            finder.close()
            store.close()

    def sent_items(self, identity: str) -> list[dict[str, Any]]:
        """All items of all messages, oldest first."""
        store = self.store()
        try:
            messages = [json.loads(notice.message) for notice in reversed(store.notices(identity))]
        finally:
            store.close()
        return [item for each in messages for item in each["data"]["items"]]

    def index(self) -> None:
        async def follow() -> None:
            following = CollectionFollower(self.root, "main", WallClock())
            try:
                await following.finish()
            finally:
                await following.close()

        asyncio.run(follow())


@pytest.fixture
def watching(tmp_path: Path, copies: CaptureReader) -> Iterator[Watching]:
    with offline_crawl(WEB, tmp_path, *WEB) as offline:
        offline.run()
        yield Watching(Revisited(offline), copies, open_root(tmp_path / "data").collection("main"))


def test_the_notice_of_a_changed_page_shows_the_difference(watching: Watching) -> None:
    watched = watching.subscribe(url=URL)
    other = watching.subscribe(url=OTHER)
    assert watching.look() == 0, "nothing has changed since"
    watching.revisited.visit("<p class=x>FIRST</p>")
    watching.revisited.visit("", status=304)
    assert watching.look() == 0, "markup, case and a 304 are no change (F3)"
    watching.revisited.visit("<p>first and <b>last</b></p>")
    assert (watching.look(), watching.look()) == (1, 0), "it is told once, whoever looks"
    (item,) = watching.sent_items(watched)
    assert (item["url"], item["what"], item["outcome"]) == (URL, "changed", "200")
    difference = item["difference"]
    assert (difference["removed"], difference["added"]) == (0, 2)
    assert [(part["kind"], part["before"], part["after"]) for part in difference["parts"]] == [
        ("same", "FIRST", "first"),
        ("changed", "", "and last"),
    ]
    assert watching.sent_items(other) == []


def test_every_change_is_notified_in_order_also_long_after_and_that_a_page_is_gone(watching: Watching) -> None:
    watched = watching.subscribe(url=URL)
    for text in ("second", "third"):
        watching.revisited.visit(f"<p>{text}</p>")
    watching.revisited.visit("nothing here", status=404)
    watching.revisited.visit("still nothing", status=404)
    watching.revisited.visit("<p>third</p>")
    assert watching.look() == 4
    sent_items = watching.sent_items(watched)
    assert [item["what"] for item in sent_items] == ["changed", "changed", "gone", "changed"]
    assert [item["seen"] for item in sent_items] == sorted(item["seen"] for item in sent_items)
    assert sent_items[2]["difference"] is None
    changed = [
        part["after"] for item in sent_items[:2] for part in item["difference"]["parts"] if part["kind"] == "changed"
    ]
    assert changed == ["second", "third"]


def test_parts_that_come_and_go_cause_no_notice_once_they_are_known(watching: Watching) -> None:
    """The judge's mask (F3): what it calls cosmetic, nobody hears of."""
    watched = watching.subscribe(url=URL)
    for number in range(40):
        watching.revisited.visit(f"<p>visitor {number * 7919} {number}</p>{PARAGRAPHS}")
    watching.look()
    judged = [changed for _, changed in watching.revisited.sights()]
    assert 0 in judged, "the mask was learnt"
    assert len(watching.sent_items(watched)) == sum(map(bool, judged))


def test_a_search_tells_of_new_and_changed_results_after_they_were_indexed(watching: Watching) -> None:
    watching.index()
    watched = watching.subscribe(query="+orçamento")
    everything = watching.subscribe(query="site:a.test")
    watching.look()
    assert watching.sent_items(watched) == watching.sent_items(everything) == [], "what was there before is no news"
    watching.revisited.visit("<title>T</title><p>O orçamento de 2026</p>")
    watching.revisited.visit("<p>outra coisa</p>", url=OTHER)
    assert watching.look() == 0, "nothing is told before it can be found"
    watching.index()
    watching.look()
    (item,) = watching.sent_items(watched)
    assert (item["url"], item["what"], item["title"]) == (URL, "changed", "T")
    assert "orçamento" in item["snippet"]
    assert item["difference"]["added"] == 4
    assert {each["url"] for each in watching.sent_items(everything)} == {URL, OTHER}
    watching.revisited.visit("<div><p>O ORÇAMENTO de 2026")
    watching.index()
    watching.look()
    assert len(watching.sent_items(watched)) == 1, "other bytes that read the same are no change"
    watching.revisited.visit("<p>O orçamento de 2027</p>")
    watching.index()
    watching.look()
    assert [each["what"] for each in watching.sent_items(watched)] == ["changed", "changed"]


def test_a_page_that_is_found_for_the_first_time_is_a_new_result(tmp_path: Path, copies: CaptureReader) -> None:
    web = {URL: f'<p>first</p><a href="{OTHER}">x</a>', OTHER: "<p>um orçamento</p>"}
    with offline_crawl(web, tmp_path, URL) as offline:
        offline.run(1)
        watching = Watching(Revisited(offline), copies, open_root(tmp_path / "data").collection("main"))
        watching.index()
        watched = watching.subscribe(query="orçamento")
        offline.run()
        watching.index()
        watching.look()
        (item,) = watching.sent_items(watched)
        assert (item["url"], item["what"], item["difference"]) == (OTHER, "new", None)


NO_SENSE = (
    ({"url": "http://a.test/never"}, "is not known in main"),
    ({"url": "nothing"}, "is not known|not an http"),
    ({"query": '""'}, "is an empty query"),
    ({"query": "x" * 2_001}, "at most 2,000"),
    ({}, "either the URL of a page"),
    ({"url": URL, "query": "x"}, "either the URL of a page"),
    ({"url": URL, "webhook": "ftp://b.test/"}, "webhook: must be"),
    ({"url": URL, "webhook": "http://ana:x@b.test/"}, "name and a password"),
    ({"url": URL, "webhook": "http://127.0.0.1/"}, "127.0.0.1 is loopback; allow such networks with fetch.allow_nets"),
    ({"url": URL, "webhook": "http://0x7f.1/"}, "loopback"),
    ({"url": URL, "webhook": "http://[::1]:9000/"}, "loopback"),
    ({"url": URL, "webhook": "http://169.254.169.254/latest"}, "link-local"),
)


def test_what_makes_no_sense_is_refused_in_a_line(watching: Watching) -> None:
    for what, why in NO_SENSE:
        with pytest.raises((UsageError, StoreError), match=why):
            watching.subscribe(**what)
    assert list_subscriptions(watching.folder) == []


def test_subscriptions_are_listed_without_what_is_secret(watching: Watching) -> None:
    made = subscribe(
        watching.root,
        "main",
        WallClock(),
        url=URL,
        webhook="https://b.test/hook?key=abc",
        who="ana",
    )
    assert made.secret.startswith("whsec_")
    (listed,) = list_subscriptions(watching.folder)
    assert listed == made.subscription
    assert (listed.webhook, listed.made_by, listed.waiting) == ("https://b.test/…", "ana", 0)
    assert made.secret not in repr(listed)
    assert watching.folder.subscriptions.stat().st_mode & 0o077 == 0, "only its owner reads the secrets"
    assert notices_for_feed(watching.folder, listed.feed) is not None
    assert notices_for_feed(watching.folder, "guess") is None
    assert unsubscribe(watching.root, "main", listed.id).id == listed.id
    with pytest.raises(UsageError, match="there is no subscription"):
        unsubscribe(watching.root, "main", listed.id)
    assert list_subscriptions(watching.folder) == []


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://hooks.b.test/services/T1/B2/KEY", "https://hooks.b.test/…"),
        ("http://b.test:8080/?key=x", "http://b.test:8080/…"),
        ("http://[2001:db8::1]:8080/x", "http://[2001:db8::1]:8080/…"),
        ("https://b.test/", "https://b.test/"),
    ],
)
def test_of_a_webhook_only_where_it_is_is_shown(url: str, shown: str) -> None:
    assert redact_webhook(url) == shown


class Hasty(VirtualClock):
    """Time goes by whenever somebody looks at it."""

    def ticks_s(self) -> float:
        self._elapsed_s += 0.6
        return self._elapsed_s


def test_a_look_ends_after_a_while_and_the_next_goes_on_with_others(watching: Watching) -> None:
    """What there is to send is not kept waiting by a large import."""
    watched = [watching.subscribe(url=url) for url in (URL, URL, OTHER, URL)]
    watching.revisited.visit("<p>first and last</p>")
    store = watching.store()
    finder = NoticeFinder(
        watching.root, "main", store, watching.copies, Hasty(watching.revisited.offline.clock.now_s())
    )
    made, looks = 0, 0
    while made < 3 and looks < 10:
        made += finder.find_notices()
        looks += 1
        assert finder.is_cut or made == 3
    finder.close()
    store.close()
    assert looks > 1
    assert [len(watching.sent_items(each)) for each in watched] == [1, 1, 0, 1]


def test_what_is_removed_while_it_is_looked_at_leaves_nothing(watching: Watching) -> None:
    watched = watching.subscribe(url=URL)
    watching.revisited.visit("<p>first and last</p>")
    store = watching.store()

    class Removing(CaptureReader):
        def text(self, *words: Any, **named: Any) -> Any:
            store.remove(watched)
            return watching.copies.text(*words, **named)

    removing = Removing(WallClock())
    finder = NoticeFinder(watching.root, "main", store, removing, watching.revisited.offline.clock)
    assert finder.find_notices() == 0
    finder.close()
    removing.close()
    for table in ("subscriptions", "positions", "notified", "notices"):
        assert store.db.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    store.close()


def test_a_webhook_by_name_is_looked_up_only_when_something_is_sent() -> None:
    assert check_webhook("HTTPS://B.test/Hook?sid=1", Config()) == "https://b.test/Hook?sid=1"
