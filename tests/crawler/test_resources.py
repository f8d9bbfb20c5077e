"""As many requests at once as there are descriptors for (RELIABILITY 48)."""

from __future__ import annotations

import pytest

from teia.crawler.resources import LEAST, SPARE, allot_sockets
from teia.errors import StoreError


def test_enough_descriptors_give_all_that_is_wanted() -> None:
    sockets = allot_sockets(65_536, 60, 2_000, 1_000)
    assert (sockets.at_once, sockets.keep_alive) == (2_000, 1_000)


@pytest.mark.parametrize("limit", [64, 80, 128, 256, 1_024, 4_096])
def test_no_more_sockets_are_wanted_than_there_are(limit: int) -> None:
    sockets = allot_sockets(limit, 45, 2_000, 1_000)
    assert sockets.at_once >= 1
    assert 45 + SPARE + sockets.at_once + sockets.keep_alive + sockets.keep_alive // 2 <= limit


def test_where_there_is_hardly_any_room_a_crawl_does_not_begin() -> None:
    with pytest.raises(
        StoreError, match=r"the limit of 50 open files is too low, 63 are needed; raise it with `ulimit -n`"
    ):
        allot_sockets(50, 63 - SPARE - LEAST, 2_000, 1_000)
