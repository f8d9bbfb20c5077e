"""The views of `teia sql` that come from the frontier."""

from __future__ import annotations

from pathlib import Path

import pytest

from teia.errors import QueryError
from teia.store.root import Root
from teia.transfer.read_all import known_urls
from teia.views import sql_tables
from teia.views.sql_tables import HOSTS, PAGES, sql_views
from tests.crawler.handmade import make


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return make(tmp_path / "data")


def run_query(root: Root, sql: str) -> list[tuple[object, ...]]:
    with sql_views(root, "main", sql) as log:
        return log.query(sql).rows


@pytest.mark.parametrize("batch_rows", [1, 5, 20_000])
def test_pages_are_all_known_urls(root: Root, monkeypatch: pytest.MonkeyPatch, batch_rows: int) -> None:
    monkeypatch.setattr(sql_tables, "BATCH_ROWS", batch_rows)
    rows = run_query(root, "SELECT url, state, outcome, depth, in_links, digest FROM pages ORDER BY url")
    keys = ("url", "state", "outcome", "depth", "in_links", "digest")
    assert rows == sorted(tuple(each[key] for key in keys) for each in known_urls(root, "main"))


def test_pages_say_how_they_were_found(root: Root) -> None:
    sql = "SELECT url FROM pages WHERE by_sitemap AND NOT by_link ORDER BY url"
    assert run_query(root, sql) == [("http://a.test/3",), ("http://a.test/sitemap.xml",)]
    assert run_query(root, "SELECT url FROM pages WHERE by_seed") == [("http://a.test/",)]


def test_what_was_never_visited_is_null(root: Root) -> None:
    sql = "SELECT outcome, visits, last_visit, status, media_type, digest, warc_file FROM pages WHERE state = 'queued'"
    assert run_query(root, sql) == [(None, 0, None, None, None, None, None)]


def test_hosts_count_their_urls(root: Root) -> None:
    sql = "SELECT host, cell, urls, queued, failed, excluded, parked FROM hosts ORDER BY host"
    assert run_query(root, sql) == [
        ("a.test", 0, 8, 1, 0, 1, None),
        ("b.test", 1, 3, 0, 1, 0, None),
        ("c.test", 1, 1, 0, 1, 0, "no address"),
    ]


def test_views_join_and_are_read_more_than_once(root: Root) -> None:
    sql = """
        SELECT count(*), count(DISTINCT p.url) FROM pages AS p JOIN hosts AS h USING (host)
        JOIN pages AS q USING (url) LEFT JOIN fetches AS f USING (url)
    """
    assert run_query(root, sql) == [(14, 12)]


def test_columns_are_those_of_the_schemas(root: Root) -> None:
    for name, schema in (("pages", PAGES), ("hosts", HOSTS)):
        with sql_views(root, "main", f"SELECT * FROM {name}") as log:
            assert log.query(f"SELECT * FROM {name} LIMIT 1").columns == tuple(schema.names)


def test_query_that_names_no_view_of_the_frontier_copies_none(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_tables, "copy_table", lambda *_: pytest.fail("copied"))
    assert run_query(root, "SELECT count(*) FROM fetches") == [(12,)]


@pytest.mark.parametrize("sql", ["DROP TABLE pages", "INSERT INTO hosts VALUES (1)", "COPY pages TO 'x.csv'"])
def test_nothing_can_be_changed(root: Root, sql: str) -> None:
    with pytest.raises(QueryError, match="only one read-only statement"):
        run_query(root, sql)
