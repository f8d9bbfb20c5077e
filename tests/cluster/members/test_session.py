"""Sessions: who lives, who may say that another does not, and what an outage of NATS may not do."""

from __future__ import annotations

import asyncio
import os
import signal
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from teia.clock import VirtualClock
from teia.cluster.members.join import join
from teia.cluster.members.session import PROOFS, NodeSession, NodeState, Pace, decode
from teia.errors import ClusterError
from tests.cluster.conftest import PACE, STALL_S, Nats
from tests.waiting import until_async


def test_nodes_see_each_other_come_and_leave(nats: Nats, unique: str) -> None:
    async def main() -> None:
        one, two = await nats.node(f"{unique}a"), await nats.node(f"{unique}b")
        await until_async(lambda: f"{unique}b" in one.alive() and f"{unique}a" in two.alive())
        two.set_report({"queued": 7.0}, {"3": 41})
        await until_async(lambda: one.alive()[f"{unique}b"].cells == {"3": 41})
        await two.leave()
        await until_async(lambda: one.nodes()[f"{unique}b"].state == "left")
        await one.leave()

    nats.run(main())


def test_a_second_node_with_the_same_name_is_refused(nats: Nats, unique: str) -> None:
    """RELIABILITY 53: the second is refused, loudly; the first does not notice."""

    async def main() -> None:
        lost: list[str] = []
        one = await nats.node(unique, lost.append)
        with pytest.raises(ClusterError, match="stop it, or choose another --name"):
            await nats.node(unique)
        await one.renew()
        assert one.may_work
        assert not lost
        await one.leave()
        again = await nats.node(unique)  # who has left is not waited for
        assert again.instance != one.instance
        await again.leave()

    nats.run(main())


def test_the_name_of_one_that_died_is_free_after_a_silence(nats: Nats, unique: str) -> None:
    async def main() -> None:
        one = await nats.node(unique)
        await one.abandon()
        began = nats.clock.ticks_s()
        again = await nats.node(unique)
        assert nats.clock.ticks_s() - began >= PACE.silence_s
        await one.renew()
        assert one.is_lost
        await again.leave()

    nats.run(main())


def test_a_node_that_comes_back_while_it_is_declared_dead_is_let_in(nats: Nats, unique: str) -> None:
    """It waits for its own silence; that another node says so first is no sign of life."""

    async def main() -> None:
        other = await nats.node(f"{unique}b")
        one = await nats.node(unique)
        await until_async(lambda: unique in other.alive())
        await one.abandon()
        await asyncio.sleep(0.5 * PACE.silence_s)  # away for a while, not long enough to be dead
        again = await nats.node(unique)
        assert again.may_work
        await until_async(lambda: other.nodes()[unique].instance == again.instance)
        await again.leave()
        await other.leave()

    nats.run(main())


def test_a_silent_node_is_declared_dead_and_knows_it(nats: Nats, unique: str) -> None:
    """RELIABILITY figure 9. When exactly is shown below, by a clock that no busy machine can hold up."""

    async def main() -> None:
        lost: list[str] = []
        one, two = await nats.node(f"{unique}a"), await nats.node(f"{unique}b", lost.append)
        await until_async(lambda: f"{unique}b" in one.alive())
        silent_since = nats.clock.ticks_s()
        await two.abandon()
        await until_async(lambda: f"{unique}b" not in one.alive())
        assert nats.clock.ticks_s() - silent_since <= 2 * PACE.silence_s + STALL_S
        assert not two.may_work  # it stopped by its own clock before anybody declared it
        await two.renew()
        assert two.is_lost
        assert lost == [f"declared dead by {unique}a"]
        await one.leave()

    nats.run(main())


class Bucket:
    """Takes everything."""

    revision = 7
    last = 0

    async def update(self, name: str, value: bytes, last: int) -> int:
        self.revision, self.last = self.revision + 1, last
        return self.revision


def observer(clock: VirtualClock) -> NodeSession:
    """A session that has just seen another node, without NATS."""
    wire: Any = SimpleNamespace(request=lambda question: question)
    session = NodeSession(wire, clock, Pace.for_silence(15.0), Bucket(), NodeState("a", "1"), print)  # type: ignore[arg-type]
    session.note_state("b", NodeState("b", "2"), 7)
    return session


def test_a_silent_node_may_be_declared_dead_when_its_silence_is_t_old_not_a_beat_later() -> None:
    """Issue 7: what is left of 2 T is for taking its cells."""

    async def main() -> None:
        clock = VirtualClock()
        session = observer(clock)
        for _ in range(4):
            await clock.advance(3.0)
            session._note_proof()
        assert session._next_silence_s() == 0.5  # at the latest: others may come meanwhile
        await clock.advance(2.8)
        assert not session._silent()
        assert session._next_silence_s() == pytest.approx(0.2)
        await clock.advance(0.2)
        silent = session._silent()
        assert list(silent) == ["b"]
        await session._declare("b", silent["b"])
        assert not session.nodes()["b"].is_alive
        assert not session._silent()
        assert session.bucket.last == 7  # type: ignore[attr-defined]  # what was seen, whatever was heard since

    asyncio.run(main())


def test_the_format_of_the_log_is_one_that_every_node_can_read() -> None:
    """Rolling upgrade: a node that announces nothing reads the first; one that died may come back as it was."""
    session = observer(VirtualClock())
    session.node = msgspec.structs.replace(session.node, reads_format=2)
    assert session.common_format() == 1  # the others are not known yet
    session.instances.own_key_at = 0.0
    assert session.common_format() == 1
    session.note_state("b", NodeState("b", "3", reads_format=2), 8)
    session.note_state("c", NodeState("c", "1", collection="another"), 9)
    assert session.common_format() == 2
    old = decode(b'{"name": "d", "instance": "1", "version": 1}')
    assert old is not None
    session.note_state("d", old, 10)
    assert session.common_format() == 1
    session.note_state("d", msgspec.structs.replace(old, state="dead"), 11)
    assert session.common_format() == 1
    session.note_state("d", msgspec.structs.replace(old, state="left"), 12)
    assert session.common_format() == 2


def test_renewals_between_two_beats_do_not_prove_that_nats_was_there() -> None:
    """Three of them may take a moment, just after an outage: others had no time to come back."""

    async def main() -> None:
        clock = VirtualClock()
        session = observer(clock)
        await clock.advance(20.0)
        for _ in range(3):
            assert await session.renew()
        assert not session._silent()
        for _ in range(PROOFS):
            session._note_proof()
        assert list(session._silent()) == ["b"]

    asyncio.run(main())


def test_after_an_outage_others_have_three_beats_to_come_back() -> None:
    """Issue 7: also if our own beat was between the other's last word and the moment at which NATS went away."""

    async def main() -> None:
        clock = VirtualClock()
        session = observer(clock)
        await clock.advance(1.0)
        session._note_proof()
        await clock.advance(30.0)
        for _ in range(3):
            session._note_proof()
            await clock.advance(3.0)
            assert not session._silent()
        session._note_proof()
        assert list(session._silent()) == ["b"]

    asyncio.run(main())


@pytest.mark.slow
def test_an_outage_of_nats_longer_than_a_session_kills_nobody(own_nats: Nats, unique: str) -> None:
    """Issue 7: everybody stops at the deadline, nobody is declared dead, all go on."""

    async def main() -> None:
        lost: list[str] = []
        pace = Pace.for_silence(3.0)  # a client looks for the server each half second: its three beats must be longer
        nodes = [await own_nats.node(f"{unique}{letter}", lost.append, pace) for letter in "abc"]
        await until_async(lambda: all(len(node.alive()) == 3 for node in nodes))
        server = own_nats.servers.process_of(0)
        os.kill(server, signal.SIGSTOP)
        try:
            await until_async(lambda: not any(node.may_work for node in nodes))
            await asyncio.sleep(pace.silence_s)  # away for longer than a session
        finally:
            os.kill(server, signal.SIGCONT)
        await until_async(lambda: all(node.may_work for node in nodes))
        await asyncio.sleep(1.5 * pace.silence_s)  # nobody is declared dead in that time
        assert not lost
        assert all(len(node.alive()) == 3 and node.may_work for node in nodes)
        for node in nodes:
            await node.leave()

    own_nats.run(main())


def test_a_renewal_whose_answer_was_lost_is_no_loss(nats: Nats, unique: str) -> None:
    async def main() -> None:
        lost: list[str] = []
        one = await nats.node(unique, lost.append, pace=Pace(60, 20, 5))
        before = one.revision
        await one.renew()
        one.revision = before  # as if the answer had never come
        await one.renew()
        assert one.revision > before
        await one.renew()
        assert one.may_work
        assert not lost
        await one.leave()

    nats.run(main())


def test_a_node_that_leaves_just_after_a_renewal_whose_answer_was_lost_says_so(nats: Nats, unique: str) -> None:
    """Its cells may hang on that: else they stand still for T."""

    async def main() -> None:
        lost: list[str] = []
        one = await nats.node(f"{unique}a")
        two = await nats.node(f"{unique}b", lost.append, pace=Pace(60, 20, 5))
        before = two.revision
        await two.renew()
        two.revision = before  # as if it had been given up before the answer came
        await two.leave()
        await until_async(lambda: f"{unique}b" in one.nodes() and one.nodes()[f"{unique}b"].state == "left")
        assert not lost
        await one.leave()

    nats.run(main())


@pytest.mark.parametrize("name", ["", "a b", "../x", "é", "x" * 64, "a.b"])
def test_names_that_could_lead_elsewhere_are_refused(nats: Nats, name: str) -> None:
    async def main() -> None:
        wire = await nats.wire()
        try:
            with pytest.raises(ClusterError, match="cannot be the name of a node"):
                await join(wire, nats.clock, name, lambda why: None)
        finally:
            await wire.close()

    nats.run(main())


def test_a_pace_that_cannot_be_kept_is_refused() -> None:
    with pytest.raises(ClusterError, match="cannot be renewed"):
        Pace(silence_s=3, beat_s=3, margin_s=1)
