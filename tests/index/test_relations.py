"""Who links here, by the index (F5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from teia.index.cell import CellIndex
from teia.index.entry import Anchor, IndexEntry
from teia.index.relations import linking_pages
from teia.urls import key_of

TARGET = key_of("http://b.test/")


def entry(number: int, *targets: int) -> IndexEntry:
    url = f"http://a.test/{number}"
    return IndexEntry(
        url=url,
        key=key_of(url),
        host="a.test",
        digest=b"12345678",
        title="T",
        headings=(),
        text="some words",
        description="",
        language="en",
        media_type="text/html",
        date_s=0,
        visited_s=1_700_000_000,
        text_digest=1,
        simhash=1,
        links=tuple(Anchor(target, "b.test", "more") for target in targets),
    )


@pytest.fixture
def index(tmp_path: Path) -> CellIndex:
    return CellIndex(tmp_path / "index")


def pages(folder: Path, key: int = TARGET, at_most: int = 100) -> list[str]:
    found = linking_pages(folder, key, at_most)
    assert found is not None
    assert all(key_of(url) == of_page for url, of_page in found.pages)
    return sorted(url.rpartition("/")[2] for url, _ in found.pages)


def test_pages_that_link_are_found_whatever_the_sign_of_the_key(index: CellIndex) -> None:
    index.put(entry(1, TARGET, 7))
    index.put(entry(2, 7))
    index.put(entry(3, TARGET, -(2**63)))
    index.commit(3)
    assert pages(index.folder) == ["1", "3"]
    assert pages(index.folder, 7) == ["1", "2"]
    assert pages(index.folder, -(2**63)) == ["3"]
    assert pages(index.folder, 8) == []
    index.close()


def test_pages_that_changed_or_went_do_not_link_any_more(index: CellIndex) -> None:
    for number in (1, 2, 3):
        index.put(entry(number, TARGET))
    index.commit(3)
    index.put(entry(1, 7))
    index.remove(key_of("http://a.test/2"))
    index.commit(5)
    assert pages(index.folder) == ["3"]
    index.close()


def test_more_than_were_requested_are_counted(index: CellIndex) -> None:
    for number in range(8):
        index.put(entry(number, TARGET))
    index.commit(8)
    found = linking_pages(index.folder, TARGET, 3)
    assert found is not None
    assert (len(found.pages), found.total) == (3, 8)
    index.close()


def test_without_an_index_nothing_is_returned_and_none_is_made(tmp_path: Path) -> None:
    assert linking_pages(tmp_path / "index", TARGET, 10) is None
    (tmp_path / "index").mkdir()
    assert linking_pages(tmp_path / "index", TARGET, 10) is None
    assert list((tmp_path / "index").iterdir()) == []
