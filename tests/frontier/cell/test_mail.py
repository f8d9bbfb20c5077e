"""Links for other cells: delivered in order, counted once, whatever dies in between."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teia.errors import CorruptFile
from teia.frontier.cell import mail
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import FoundUrl
from teia.frontier.cell.schema import BY_SITEMAP
from teia.frontier.queue.order import Hint
from tests.frontier.cells import NOW_S, found, given_up, image, page, row

SENDER, RECEIVER = 0, 1


class Pair:
    """A sending and a receiving cell that can die and come back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sender = FrontierCell(folder / "sender.sqlite")
        self.receiver = FrontierCell(folder / "receiver.sqlite")

    def post(self, *links: FoundUrl) -> None:
        with self.sender.transaction():
            mail.post(self.sender, RECEIVER, links)

    def take(self) -> int:
        """Bring what waits into the receiver; returns the last number, for `delivered`."""
        last = 0
        with self.receiver.transaction():
            for seq, to_cell, links in mail.pending(self.sender):
                assert to_cell == RECEIVER
                if links and seq > mail.last_received(self.receiver, SENDER):
                    self.receiver.add_links(links, NOW_S)
                    mail.note_received(self.receiver, SENDER, seq)
                last = seq
        return last

    def drop(self, seq: int) -> None:
        with self.sender.transaction():
            mail.delete_delivered(self.sender, seq)

    def die(self) -> None:
        self.close()
        self.__init__(self.folder)  # type: ignore[misc]  # coming back is being made again

    def close(self) -> None:
        self.sender.close()
        self.receiver.close()

    def waiting(self) -> list[int]:
        return [seq for seq, _, links in mail.pending(self.sender) if links]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    cells = Pair(tmp_path)
    yield cells
    cells.close()


def test_links_arrive_as_they_were_posted(pair: Pair) -> None:
    other = replace(found("https://s.test/ção?x=%C3%A7"), by=BY_SITEMAP, hint=Hint(70, 2, 1, 99))
    links = [found(page(1), depth=3, in_links=2, hops=1), other]
    pair.post(*links)
    assert list(mail.pending(pair.sender)) == [(1, RECEIVER, links)]


def test_long_links_are_sent_in_messages_that_nats_takes(tmp_path: Path) -> None:
    """In order and none left out: a page of a thousand links of 1,500 characters is 1.5 MB, and NATS takes one."""
    posted: list[bytes] = []

    class PostJournal:
        def post(self, to_cell: int, bulk: bytes) -> None:
            posted.append(bulk)

    links = [found(page(number) + "/" + "x" * 1_500) for number in range(2_100)]
    mail.post(SimpleNamespace(journal=PostJournal()), RECEIVER, links)  # type: ignore[arg-type]
    assert max(map(len, posted)) <= mail.BULK_BYTES < 1_000_000
    assert [link for bulk in posted for link in mail.decode_links(bulk)] == links
    posted.clear()
    mail.post(SimpleNamespace(journal=PostJournal()), RECEIVER, [found(page(number)) for number in range(2_100)])  # type: ignore[arg-type]
    assert len(posted) == 3


def test_order_is_kept(pair: Pair) -> None:
    for number in range(5):
        pair.post(found(page(number)))
    assert [links[0].tail for _, _, links in mail.pending(pair.sender)] == [f"/{number}" for number in range(5)]


def test_delivery_repeated_after_a_crash_changes_nothing(pair: Pair) -> None:
    """Death between the receiver's commit and the sender's note that it was delivered."""
    pair.post(found(page(1), in_links=2), found(page(2)))
    pair.take()
    before = image(pair.receiver)
    pair.die()
    pair.take()
    assert image(pair.receiver) == before
    assert row(pair.receiver, page(1))["in_links"] == 2


def test_death_before_the_receivers_commit_loses_nothing(pair: Pair) -> None:
    pair.post(found(page(1)))
    pair.die()
    pair.take()
    assert pair.receiver.known == 1


def test_posting_that_was_rolled_back_is_not_delivered(pair: Pair) -> None:
    with given_up(pair.sender):
        mail.post(pair.sender, RECEIVER, [found(page("never"))])
    pair.post(found(page(1)))
    pair.take()
    assert [links[0].tail for _, _, links in mail.pending(pair.sender)] == ["/1"]
    assert pair.receiver.known == 1


def test_what_is_delivered_is_dropped(pair: Pair) -> None:
    pair.post(found(page(1)))
    pair.post(found(page(2)))
    pair.drop(pair.take())
    assert pair.waiting() == []
    assert pair.sender.db.execute("SELECT count(*) FROM outbox").fetchone() == (1,)


def test_only_what_is_delivered_is_dropped(pair: Pair) -> None:
    pair.post(found(page(1)))
    last = pair.take()
    pair.post(found(page(2)))
    pair.drop(last)
    assert pair.waiting() == [2]


def test_numbers_never_start_again(pair: Pair) -> None:
    """SQLite gives the number of a deleted last row to the next one; the receiver would take it for a repeat."""
    for number in range(1, 4):
        pair.post(found(page(number)))
        pair.drop(pair.take())
        pair.die()
        pair.post(found(page(f"{number}/more")))
        assert pair.waiting() == [2 * number]
        pair.drop(pair.take())
    assert pair.receiver.known == 6


def test_receiver_notes_each_sender_apart(pair: Pair) -> None:
    with pair.receiver.transaction():
        mail.note_received(pair.receiver, 0, 7)
        mail.note_received(pair.receiver, 2, 3)
    assert [mail.last_received(pair.receiver, sender) for sender in (0, 1, 2)] == [7, 0, 3]


def test_links_that_cannot_be_read_name_the_file(pair: Pair) -> None:
    pair.post(found(page(1)))
    pair.sender.db.execute("UPDATE outbox SET bulk = x'c1ff'")
    with pytest.raises(CorruptFile, match=r"sender\.sqlite: links 1 for cell 1 cannot be read"):
        list(mail.pending(pair.sender))


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_counts_are_exact_whatever_dies_and_when(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    chance = random.Random(seed)
    pair = Pair(tmp_path_factory.mktemp("pair"))
    sent, delivered = 0, 0
    for _ in range(25):
        for cell in (pair.sender, pair.receiver):
            cell.db.execute("PRAGMA synchronous = OFF")
        deed = chance.choice(("post", "post", "take", "drop", "die"))
        if deed == "post":
            count = chance.randrange(1, 4)
            pair.post(found(page(1), in_links=count))
            sent += count
        elif deed == "take":
            delivered = pair.take()
        elif deed == "drop" and delivered:
            pair.drop(delivered)
        elif deed == "die":
            pair.die()
            delivered = 0
    pair.take()
    assert sent == 0 or row(pair.receiver, page(1))["in_links"] == sent
    pair.close()
