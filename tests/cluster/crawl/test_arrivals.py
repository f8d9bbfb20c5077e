"""Batches of links are counted by sender, from their arrival to their merge, with the time between (A11)."""

from __future__ import annotations

import asyncio

from teia.clock import VirtualClock
from teia.cluster.cells.log import LinkBatch
from teia.cluster.crawl.arrivals import LAG_WITHIN_S, Arrivals

START_S = 1_790_000_000.0


def test_batches_are_counted_by_sender_and_their_lag_is_measured() -> None:
    clock = VirtualClock(START_S)
    arrivals = Arrivals(clock)
    assert (arrivals.batches_by_node(), arrivals.lag()) == ({}, {}), "nothing is known, so nothing is reported"
    for cell, seq, giver in ((1, 10, "b"), (1, 12, "c"), (2, 11, "b"), (2, 14, "")):
        arrivals.note_received(cell, LinkBatch(seq, b"", giver, START_S - 1.0))
    assert arrivals.batches_by_node() == {"b": (0, 2), "c": (0, 1)}
    assert arrivals.lag() == {"lag_s": 1.0}, "the age of the oldest that waits"
    arrivals.note_merged(1, 10)
    asyncio.run(clock.advance(2.0))
    arrivals.note_merged(2, 14)
    assert arrivals.batches_by_node() == {"b": (2, 0), "c": (0, 1)}
    assert arrivals.lag() == {"lag_s": 3.0}
    arrivals.forget(1)
    assert arrivals.batches_by_node() == {"b": (2, 0)}, "the cell's next owner merges them"
    assert arrivals.lag() == {"lag_s": round((1.0 + 3.0 + 3.0) / 3, 3)}
    asyncio.run(clock.advance(LAG_WITHIN_S + 1.0))
    assert arrivals.lag() == {}
