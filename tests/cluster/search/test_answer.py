"""A node that answers: a question that fails takes nobody's place."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from teia.clock import WallClock
from teia.cluster.nats.thread import LoopThread
from teia.cluster.nats.wire import connect
from teia.cluster.search import answer as search_answer
from teia.cluster.search.answer import Answerer
from teia.cluster.search.messages import VERSION, SearchReply, SearchRequest, decode, encode, node_subject
from tests.cluster.conftest import Nats
from tests.cluster.shelves import SOON_S, make_root
from tests.waiting import until

NO_TEXT = "no file \udcff"
"""As Python reads the name of a file with octets that are no UTF-8; it cannot be sent as it is."""


def lend(asked: SearchRequest) -> bytes:
    match asked.kind:
        case "odd":
            raise FileNotFoundError(NO_TEXT)
        case "worse":
            raise SystemExit(NO_TEXT)
    return b"lent"


class Questions:
    """Asks one node, by its name."""

    def __init__(self, nats: Nats, stack: ExitStack, collection: str, folder: Path) -> None:
        root = make_root(folder, collection, {}, 1)
        self._thread = stack.enter_context(LoopThread())
        self._wire = self._thread.wait_for(connect(nats.servers.urls, nats.servers.key, "a"))
        stack.callback(lambda: self._thread.wait_for(self._wire.end()))
        self.node = Answerer(self._wire, WallClock(), root, collection, "a", lend)
        self._thread.wait_for(self.node.start())
        stack.callback(lambda: self._thread.wait_for(self.node.close()))
        self._subject = node_subject(collection, "a")

    def ask(self, kind: str) -> SearchReply:
        octets = encode(SearchRequest(VERSION, kind, (), int(1000 * SOON_S), b""))
        answer = self._thread.wait_for(self._wire.client.request(self._subject, octets, timeout=SOON_S))
        return decode(answer.data, SearchReply)

    def tell(self, kind: str) -> None:
        """Ask, and wait for no answer."""
        octets = encode(SearchRequest(VERSION, kind, (), int(1000 * SOON_S), b""))
        self._thread.wait_for(self._wire.client.publish(self._subject, octets))


@pytest.fixture
def questions(nats: Nats, unique: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Questions]:
    caplog.set_level(logging.CRITICAL + 1)  # a log that is no text is more than a worker of xdist can hand on
    with ExitStack() as stack:
        yield Questions(nats, stack, unique, tmp_path)


def test_an_error_that_is_no_text_is_reported_all_the_same(questions: Questions) -> None:
    assert questions.ask("odd").error == r"FileNotFoundError: no file \udcff"


def test_questions_that_fail_altogether_leave_no_node_busy(
    questions: Questions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_answer, "MAX_WAITING", 2)
    for _ in range(2):
        questions.tell("worse")
    answer = until(lambda: said if not (said := questions.ask("fine")).error else None, within_s=SOON_S)
    assert answer.body == b"lent"
