"""Looking up keys, compiled: what a table gives; keys of a damaged file are in no order, and nothing may break."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from teia.errors import CorruptFile
from teia.graph.rankfile import RankFile, look_up_all
from tests.fuzz.pieces import Pieces, folder

SEEDS = (
    b"\x03" + np.arange(12, dtype=np.int64).tobytes(),
    b"\x00" + b"\xff" * 64,
    b"\x01teiarank\x01\0\0\0\0\0\0\0\x01",
)


def fuzz_one(data: bytes) -> None:
    pieces = Pieces(data)
    share, raw = pieces.number(), pieces.rest()
    numbers = np.frombuffer(raw[: len(raw) // 8 * 8], np.int64)
    known, keys = numbers[: len(numbers) * share // 255], numbers
    values = np.arange(1, len(known) + 1, dtype=np.uint32)
    look_up_all(known, values, keys)
    known = np.unique(known)
    values = np.arange(1, len(known) + 1, dtype=np.uint32)
    table = dict(zip(known.tolist(), values.tolist(), strict=True))
    for column in (values, values.astype(np.float32)):
        assert look_up_all(known, column, keys).tolist() == [table.get(key, 0) for key in keys.tolist()]
    path = folder() / "ranks"
    path.write_bytes(raw)
    with suppress(CorruptFile):
        RankFile.open(path)
