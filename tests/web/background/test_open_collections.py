"""Collections kept open between requests."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from teia.clock import VirtualClock
from teia.store.root import open_root
from teia.web.background.open_collections import MAX_AGE_S, OpenCollections


def test_what_was_given_back_is_borrowed_again_for_a_while(crawled_data: Path) -> None:
    clock = VirtualClock(0)
    shelf = OpenCollections(open_root(crawled_data), clock)
    with shelf.borrow("main") as first, shelf.borrow("main") as second:
        assert first is not second, "nobody shares"
    with shelf.borrow("main") as again:
        assert again in (first, second)
    asyncio.run(clock.advance(MAX_AGE_S + 1))
    with shelf.borrow("main") as later:
        assert later not in (first, second)
    shelf.close()


def test_what_went_wrong_is_not_kept(crawled_data: Path) -> None:
    shelf = OpenCollections(open_root(crawled_data), VirtualClock(0))
    with pytest.raises(RuntimeError), shelf.borrow("main") as first:
        raise RuntimeError
    with shelf.borrow("main") as second:
        assert second is not first
    shelf.close()


def test_a_collection_that_was_made_anew_is_another_one(crawled_data: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(crawled_data, data)
    shelf = OpenCollections(open_root(data), VirtualClock(0))
    with shelf.borrow("main") as old:
        pass
    (data / "main").rename(data / "was-main")
    shutil.copytree(data / "was-main", data / "main")
    with shelf.borrow("main") as new:
        assert new is not old
    shelf.forget("main")
    with shelf.borrow("main") as newest:
        assert newest is not new
    shelf.close()
