"""Chord's protocol over NATS subjects: every look-up ends at the owner, and takes hops (A2)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from statistics import median

from teia.cluster.circle.circle import CirclePoint, circle_id
from teia.lab.lookup.over_nats import measure_look_ups, pack_answer, pack_question, unpack_answer, unpack_question
from teia.lab.lookup.protocol import FindOwner, GetNeighbours, Leave, Neighbours, Notify


def test_messages_are_read_as_they_were_written() -> None:
    a, b = (CirclePoint(circle_id(name), name) for name in "ab")
    for question in (FindOwner(2**159 + 1), Notify(a), GetNeighbours(), Leave(a, None, (b,)), Leave(a, b, ())):
        assert unpack_question(pack_question(question)) == question
    for answer in (Neighbours(None, (a, b)), Neighbours(b, (a,), (b, a))):
        assert unpack_answer(pack_answer(answer)) == answer


def test_look_ups_over_nats_end_at_the_owner(tmp_path: Path) -> None:
    found = asyncio.run(measure_look_ups(tmp_path / "nats", 8, 100, seed=3))
    assert found.right == len(found.chord_s) == 100
    assert 0.5 < found.hops < 4
    assert median(found.table_s) < median(found.request_s), "no message is faster than one"
    assert found.join_messages > 8
