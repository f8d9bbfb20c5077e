"""Notices on their way to webhooks, over real sockets: signed, at least once, never to the inside (T10)."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import pytest

from teia.clock import Clock, VirtualClock, WallClock
from teia.config.sections import Config
from teia.crawler.signals_in.outgoing import AT_ONCE, HUBS, WEBHOOKS, Poster, ReceiverStates
from teia.crawler.signals_in.websub import HubRound, open_hubs, store_hubs
from teia.lib.child_process import PIPE, ChildProcess
from teia.lib.entry_points import command_of
from teia.notify.keep_process import NotifierSupervisor, is_needed, run_notifier
from teia.notify.process import Notifier, notifier_lock, run
from teia.notify.subscriptions import (
    ListedSubscription,
    NewSubscription,
    list_subscriptions,
    open_subscriptions,
    redact_webhook,
    send_test_message,
    subscribe,
)
from teia.signals import subscriptions, websub
from teia.sqlite import transaction
from teia.store.root import Root, open_root
from tests.crawler.keep_fresh.test_observe import URL, WEB, Revisited
from tests.crawler.offline import offline_crawl
from tests.fetch.receiver import Received, Receiver, Reply
from tests.waiting import until_async

NETS = ["127.77.0.0/16"]


@dataclass
class Post:
    """A collection whose front page is visited by hand, and its courier."""

    root: Root
    clock: VirtualClock
    revisited: Revisited

    def subscribe(self, webhook: str) -> NewSubscription:
        return subscribe(self.root, "main", self.clock, url=URL, webhook=webhook)

    def turns(self, number: int = 1, every_s: float = 1.0) -> None:
        async def go() -> None:
            notifier = Notifier(self.root, self.clock)
            try:
                for _ in range(number):
                    await notifier.run_round()
                    await answered(notifier)
                    await self.clock.advance(every_s)
            finally:
                await notifier.close()

        asyncio.run(go())

    def state(self) -> ListedSubscription:
        (watched,) = list_subscriptions(self.root.collection("main"))
        return watched


async def answered(notifier: Notifier) -> None:
    """Wait for receivers, who live in real time."""
    await until_async(lambda: not notifier.under_way, "receivers answer")


@contextmanager
def posting(folder: Path, **settings: object) -> Iterator[Post]:
    with offline_crawl(WEB, folder, *WEB, fetch__allow_nets=NETS, **settings) as offline:
        offline.run()
        yield Post(open_root(folder / "data"), offline.clock, Revisited(offline))


@pytest.fixture
def post(tmp_path: Path) -> Iterator[Post]:
    with posting(tmp_path) as post:
        yield post


def is_signed(received: Received, secret: str) -> bool:
    """Check a message as a receiver does, without anything of ours."""
    signed = f"{received.headers['webhook-id']}.{received.headers['webhook-timestamp']}.".encode() + received.body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    expected = "v1," + base64.b64encode(hmac.digest(key, signed, sha256)).decode()
    return hmac.compare_digest(expected, received.headers["webhook-signature"])


@pytest.mark.heavy
def test_a_change_is_posted_signed_and_once(post: Post) -> None:
    with Receiver() as receiver:
        made = post.subscribe(receiver.url)
        post.revisited.visit("<p>first and last</p>")
        post.turns(3)
    (message,) = receiver.received
    assert (message.method, message.path, message.headers["content-type"]) == ("POST", "/hook", "application/json")
    assert message.headers["user-agent"].startswith("teia/")
    assert is_signed(message, made.secret)
    told = json.loads(message.body)
    assert (told["type"], told["data"]["page"], told["data"]["subscription"]) == (
        "page.changed",
        URL,
        made.subscription.id,
    )
    assert told["data"]["items"][0]["difference"]["added"] == 2
    assert made.secret.encode() not in message.body
    assert (post.state().delivered, post.state().waiting, post.state().problem) == (1, 0, None)


@pytest.mark.heavy
def test_a_receiver_that_fails_is_tried_again_by_the_clock_and_gets_everything_in_order(post: Post) -> None:
    with Receiver(lambda _: Reply(503, {"retry-after": "100"})) as receiver:
        post.subscribe(receiver.url)
        post.revisited.visit("<p>second</p>")
        post.turns(3, every_s=10.0)
        assert len(receiver.received) == 1, "it is left alone"
        assert (post.state().problem, post.state().failures, post.state().waiting) == ("503", 1, 1)
        post.revisited.visit("<p>third</p>", after_days=1 / 86_400)
        receiver.behave = lambda _: Reply()
        post.turns(1, every_s=100.0)
        post.turns(2)
    ids = [each.headers["webhook-id"] for each in receiver.received]
    assert (ids[0] == ids[1], len(set(ids)), len(ids)) == (True, 2, 3), "the same message has the same id"
    added = [
        part["after"]
        for each in receiver.received[1:]
        for part in json.loads(each.body)["data"]["items"][0]["difference"]["parts"]
    ]
    assert added == ["second", "third"]


@pytest.mark.heavy
@pytest.mark.parametrize("status", [307])
def test_a_redirect_is_not_followed_and_is_no_arrival(post: Post, status: int) -> None:
    with Receiver() as other, Receiver(lambda _: Reply(status, {"location": other.url})) as receiver:
        post.subscribe(receiver.url)
        post.revisited.visit("<p>second</p>")
        post.turns(2)
        assert (len(receiver.received), other.received) == (1, [])
    assert (post.state().problem, post.state().waiting) == (f"{status}: redirects are not followed", 1)


@pytest.mark.heavy
def test_a_name_that_leads_inside_is_not_connected_to(tmp_path: Path) -> None:
    """The one address guard, when a message is sent: a name may lead elsewhere than when it was given (rebinding)."""
    with Receiver(address="127.66.0.9") as inside:
        port = int(inside.url.rpartition(":")[2].partition("/")[0])
        with posting(tmp_path, fetch__resolve=["hook.test=127.66.0.9"]) as post:
            post.subscribe("http://127.77.0.8:9000/hook")
            store = open_subscriptions(post.root.collection("main").subscriptions)
            with transaction(store.db):  # as if the name had led elsewhere when it was given
                store.db.execute("UPDATE subscriptions SET webhook = ?", (f"http://hook.test:{port}/hook",))
            store.close()
            post.revisited.visit("<p>second</p>")
            post.turns(2)
            assert inside.received == []
            assert post.state().problem == "blocked_address: 127.66.0.9 is loopback"


def test_a_message_can_be_tried_and_one_that_is_not_wanted_is_given_up(post: Post) -> None:
    with Receiver(lambda _: Reply(410)) as receiver:
        made = post.subscribe(receiver.url)
        send_test_message(post.root, "main", post.clock, made.subscription.id)
        post.turns(2)
    assert json.loads(receiver.received[0].body)["type"] == "test"
    assert (post.state().given_up, post.state().waiting, post.state().problem) == (1, 0, "410")


def started(root: Root) -> ChildProcess:
    return ChildProcess(command_of(run_notifier, str(root.path)), stdin=PIPE)


def test_a_notifier_killed_while_it_sends_loses_nothing_and_repeats_only_what_was_under_way(post: Post) -> None:
    """kill -9 between the message and its answer; the real process on real sockets."""
    running: list[ChildProcess] = []
    kills = iter((True,))

    def kill_first(_: Received) -> Reply:
        if next(kills, False):
            os.kill(running[-1].pid, signal.SIGKILL)
            running[-1].wait()
        return Reply()

    with Receiver(kill_first) as receiver:
        post.subscribe(receiver.url)
        for text in ("second", "third"):
            post.revisited.visit(f"<p>{text}</p>")
        for _ in range(2):
            running.append(started(post.root))
            running[-1].close_input()
            running[-1].wait(60)
    assert [process.status for process in running] == [-9, 0], "when its input ends it tells what is left"
    ids = [each.headers["webhook-id"] for each in receiver.received]
    assert (len(ids), len(set(ids)), ids[0] == ids[1]) == (3, 2, True)
    assert (post.state().delivered, post.state().waiting) == (2, 0)


def test_one_notifier_of_a_root_works_at_a_time(post: Post) -> None:
    with notifier_lock(post.root) as first, notifier_lock(post.root) as second:
        assert (first, second) == (True, False)


def test_an_owner_has_a_short_crawl_tell_what_it_found(post: Post) -> None:
    assert not is_needed(post.root)
    with Receiver() as receiver:
        post.subscribe(receiver.url)
        assert is_needed(post.root)
        post.revisited.visit("<p>second</p>")
        keeper = NotifierSupervisor(post.root, WallClock())
        keeper.start()
        keeper.stop()
    assert len(receiver.received) == 1


def test_a_hurried_end_leaves_it_to_the_next(post: Post) -> None:
    with Receiver(lambda _: Reply(503)) as receiver:
        made = post.subscribe(receiver.url)
        post.revisited.visit("<p>second</p>")
        keeper = NotifierSupervisor(post.root, WallClock())
        keeper.start()
        began = time.monotonic()
        keeper.stop(is_hurried=True)
        assert time.monotonic() - began < 10
        assert post.state().delivered == 0
        receiver.received.clear()
        receiver.behave = lambda _: Reply()
        send_test_message(post.root, "main", post.clock, made.subscription.id)
        post.turns(3)
    kinds = [json.loads(each.body)["type"] for each in receiver.received]
    assert sorted(kinds) == ["page.changed", "test"], "nothing was lost"


@pytest.mark.heavy
def test_who_is_slow_to_answer_holds_up_nobody_else_and_not_the_end(post: Post) -> None:
    silent = threading.Event()

    def wait(_: Received) -> Reply:
        silent.wait(110)
        return Reply()

    def delivered(webhook: str) -> int:
        every = list_subscriptions(post.root.collection("main"))
        return next(each.delivered for each in every if each.webhook == redact_webhook(webhook))

    async def go() -> None:
        over = asyncio.Event()
        running = asyncio.create_task(run(post.root, WallClock(), over))
        await until_async(lambda: delivered(quick.url) >= 3 and slow.received, "both receive")
        over.set()
        await running

    with Receiver(wait) as slow, Receiver(address="127.77.0.7") as quick:
        post.subscribe(slow.url)
        post.subscribe(quick.url)
        for text in ("second", "third", "fourth"):
            post.revisited.visit(f"<p>{text}</p>")
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("teia.notify.process.LAST_ROUNDS_S", 0.5)
            patched.setattr("teia.notify.process.ROUND_S", 0.1)
            patched.setattr("teia.notify.deliver.DELAY_S", 0.1)
            patched.setattr("teia.crawler.signals_in.outgoing.ANSWER_S", 110.0)
            asyncio.run(asyncio.wait_for(go(), 90))  # an answer has longer: nobody has waited for it
        silent.set()
    told = {watched.webhook: watched for watched in list_subscriptions(post.root.collection("main"))}
    assert told[redact_webhook(quick.url)].delivered == 3
    of_slow = told[redact_webhook(slow.url)]
    assert (of_slow.delivered, of_slow.waiting, len(slow.received)) == (0, 3, 1)


@pytest.mark.heavy
def test_a_receiver_that_fails_is_left_alone_by_all_its_subscriptions(post: Post) -> None:
    with Receiver(lambda _: Reply(503, {"retry-after": "100"})) as receiver:
        made = [post.subscribe(receiver.url) for _ in range(4)]
        post.revisited.visit("<p>second</p>")

        async def go() -> None:
            notifier = Notifier(post.root, post.clock)
            for waited_s, asked in ((1.0, 1), (98.0, 1), (3.0, 1), (98.0, 2)):
                for _ in range(2):
                    await notifier.run_round()
                    await answered(notifier)
                assert len(receiver.received) == asked
                await post.clock.advance(waited_s)
            send_test_message(post.root, "main", post.clock, made[0].subscription.id)
            receiver.behave = lambda _: Reply()
            for _ in range(8):
                await notifier.run_round()
                await answered(notifier)
                await post.clock.advance(1.0)
            await notifier.close()

        asyncio.run(go())
    assert len(receiver.received) == 2 + 5, "who tries it by hand need not wait, and when it is well all is told"
    asked = [json.loads(each.body)["data"]["subscription"] for each in receiver.received[:2]]
    assert asked[0] != asked[1], "a message that is refused does not keep the others of its receiver"


def test_a_host_gets_one_message_a_second_whoever_sends_it() -> None:
    """Also a hub and a webhook, of two collections: there is one table for all."""
    clock = VirtualClock()
    places = ReceiverStates(clock)
    assert places.is_free("http://a.test/hook")
    places.note_sent("http://a.test/hook", WEBHOOKS, 1.0)
    places.note_answered("http://a.test/hook")
    assert not places.is_free("https://a.test:8443/hub")
    assert places.is_free("http://b.test/")
    asyncio.run(clock.advance(1.0))
    assert places.is_free("https://a.test:8443/hub")
    for number in range(AT_ONCE):
        places.note_sent(f"http://{number}.test/", HUBS, 5.0)
    assert (places.has_room(HUBS), places.has_room(WEBHOOKS)) == (False, True), "hubs that are slow hold up no webhook"


def test_two_collections_do_not_request_one_hub_at_once(tmp_path: Path) -> None:
    clock = VirtualClock(1e9)
    config = Config()
    config = replace(
        config,
        signals=replace(config.signals, websub="https://us.test"),
        fetch=replace(config.fetch, allow_nets=tuple(NETS)),
    )
    with Receiver(lambda _: Reply(202)) as hub:

        async def go() -> None:
            places, poster = ReceiverStates(clock), Poster(config, clock)
            rounds = []
            for name in ("a", "b"):
                found = [(f"http://{name}.test/", f"http://{name}.test/", hub.url)]
                assert store_hubs(tmp_path / name, found, config, clock.now_s())
                rounds.append(HubRound(tmp_path / name, config, poster, places, clock))
            for wait_s in (0.0, config.courtesy.delay_s, 1.0):
                for each in rounds:
                    each.step()
                await until_async(lambda: not places.under_way, "the hub answers")
                asked.append(len(hub.received))
                await clock.advance(wait_s)
            for each in rounds:
                await each.close()
            await poster.close()

        asked: list[int] = []
        asyncio.run(go())
    assert asked == [1, 1, 2], "after the rest of the collection's setting, and not before"


def test_a_delivery_that_cannot_be_recorded_is_not_repeated_every_second(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Receiver() as receiver:
        made = post.subscribe(receiver.url)
        send_test_message(post.root, "main", post.clock, made.subscription.id)
        impatient = replace(subscriptions.SCHEMA, pragmas=("PRAGMA busy_timeout = 1",))
        monkeypatch.setattr(subscriptions, "SCHEMA", impatient)
        with closing(open_subscriptions(post.root.collection("main").subscriptions)) as other, transaction(other.db):
            post.turns(5)
        assert (len(receiver.received), post.state().waiting) == (1, 1)
        post.turns(2)
    assert (len(receiver.received), post.state().delivered) == (2, 1), "at least once"


def test_hubs_that_cannot_be_written_down_now_are_kept_for_later(tmp_path: Path) -> None:
    config = replace(Config(), signals=replace(Config().signals, websub="https://us.test"))
    found = [("http://a.test/", "http://a.test/", "http://hub.test/")]
    assert store_hubs(tmp_path / "hubs", [], config, 0.0)
    with pytest.MonkeyPatch.context() as patched, closing(open_hubs(tmp_path / "hubs")) as other:
        patched.setattr(websub, "SCHEMA", replace(websub.SCHEMA, pragmas=("PRAGMA busy_timeout = 1",)))
        with transaction(other.db):
            assert not store_hubs(tmp_path / "hubs", found, config, 0.0)
        assert store_hubs(tmp_path / "hubs", found, config, 0.0)
        assert len(other.all()) == 1


@pytest.mark.heavy
def test_what_is_wrong_with_one_file_stops_nothing_else_and_leaves_nothing_behind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Poster] = []

    class Counted(Poster):
        def __init__(self, config: Config, clock: Clock) -> None:
            super().__init__(config, clock)
            made.append(self)

    monkeypatch.setattr("teia.notify.process.Poster", Counted)
    with Receiver() as receiver:
        with posting(tmp_path) as post:
            watched = post.subscribe(receiver.url)
            post.revisited.visit("<p>second</p>")
            folder = post.root.collection("main")
            folder.hubs.write_bytes(b"nothing of ours " * 100)
            post.turns(5)
            assert (len(receiver.received), len(made)) == (1, 1)
            send_test_message(post.root, "main", post.clock, watched.subscription.id)
        for cell in folder.cells():
            cell.frontier.write_bytes(b"nothing of ours " * 100)
        post.turns(2)
    assert len(receiver.received) == 2, "what waits is told, whatever became of the frontier"
    assert len([each for each in caplog.messages if "hubs" in each]) == 2, "it is said once by each courier"
