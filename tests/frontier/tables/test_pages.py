"""URLs, pages and visits as other packages read them."""

from __future__ import annotations

from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.schema import STATE_DONE, STATE_QUEUED
from teia.frontier.tables import pages
from teia.frontier.tables.page_summaries import summarize_page
from teia.urls import key_of
from tests.frontier.cells import HOST, NOW_S, page
from tests.frontier.tables.conftest import OTHER


def test_one_url_has_its_row_its_page_and_its_visits(cell: FrontierCell) -> None:
    row_key = cell.find_row_key(HOST, key_of(page(1)))
    assert row_key is not None
    known, entry = pages.find_url(cell, row_key), pages.find_page(cell, row_key)
    assert known is not None
    assert (known.state, known.in_links, known.outcome) == (STATE_DONE, 3, "200")
    assert entry is not None
    assert (entry.title, entry.etag, entry.simhash, entry.file) == ("One", '"a"', 7, "a.warc.gz")
    (visit,) = pages.visits_of(cell, row_key)
    assert (visit.time_s, visit.changed, visit.offset, visit.length) == (NOW_S, None, 10, 5)
    assert pages.visits_of(cell, row_key, NOW_S) == []
    assert pages.url_of(cell, row_key) == page(1)
    assert summarize_page(cell, HOST, key_of(page(1))) == (row_key[1], 3, 1, NOW_S)


def test_what_is_unknown_or_was_not_visited_is_none(cell: FrontierCell) -> None:
    assert cell.find_row_key("nobody.org", 1) is None
    assert pages.find_url_at(cell, "nobody.org", 1) is None
    assert pages.find_url_at(cell, HOST, 1) is None
    queued = cell.find_row_key(HOST, key_of(page(3)))
    assert queued is not None
    assert pages.find_page(cell, queued) is None
    assert summarize_page(cell, HOST, key_of(page(3))) is None


def test_all_urls_have_their_pages_if_they_were_visited(cell: FrontierCell) -> None:
    known = {each.url: each for each in pages.all_urls(cell)}
    assert known.keys() == {page(1), page(2), page(3), OTHER}
    assert known[page(3)].page is None
    assert known[page(3)].row.state == STATE_QUEUED
    assert [each.url for each in pages.all_pages(cell)] == [page(2), page(1), OTHER]  # without a capture first
    assert {url for url, *_ in pages.finished_urls(cell)} == {page(1), OTHER}


def test_urls_of_a_host(cell: FrontierCell) -> None:
    host_id = cell.find_host(HOST)
    assert host_id is not None
    assert set(pages.urls_of_host(cell, HOST, 10)) == {page(1), page(2), page(3)}
    key = key_of(page(3))
    assert list(pages.urls_between(cell, host_id, HOST, key, key)) == [(page(3), 1, 1, STATE_QUEUED)]
