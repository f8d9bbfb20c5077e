"""Queries of a CDX server: filters and times of any text are refused with a message, or mean something."""

from __future__ import annotations

import math

from teia.errors import UsageError
from teia.views.cdx import FIELDS, compile_filter, moment_of
from tests.fuzz.pieces import Pieces

LINE = dict.fromkeys(FIELDS, "http://a.test/200 text/html")
SEEDS = (b"2026\xff=status:200", b"20261104120000\xff!~mime:text/.*", b"202611\xff~url:(a|b)+$", b"0000\xff!=x:y")


def fuzz_one(data: bytes) -> None:
    pieces = Pieces(data)
    stamp, text = pieces.text(), pieces.text()
    try:
        assert math.isfinite(moment_of(stamp))
        assert moment_of(stamp) <= moment_of(stamp, is_end=True)
    except UsageError:
        pass
    for is_regex in (False, True):
        try:
            compile_filter(text, is_regex=is_regex)(LINE)  # type: ignore[arg-type]
        except UsageError:
            continue
