"""Sitemaps that robots.txt announces are read as sitemaps, whatever they are sent as."""

from __future__ import annotations

from pathlib import Path

import pytest

from teia.lab.world.exchange import WorldAnswer
from tests.collections.test_settings_of_running_crawl import paths, with_port
from tests.crawler.webs import ScriptedWeb, crawl_web, html, robots

TEXT = b"Content-Type: text/plain; charset=utf-8\r\n"
HERE = "http://a.test:{port}"


def site(sitemap: WorldAnswer, **more: WorldAnswer) -> ScriptedWeb:
    pages = {
        "/robots.txt": robots("User-agent: *\nSitemap: /map"),
        "/": html(text="the way in"),
        "/map": sitemap,
        **{f"/{name}": answer for name, answer in more.items()},
        **{f"/{number}": html(text=f"page number {number} " * number) for number in range(1, 4)},
    }
    return with_port(ScriptedWeb({"a.test": pages}))


@pytest.mark.parametrize("headers", [TEXT, b"", b"Content-Type: text/html\r\n"], ids=["text", "no type", "as a page"])
def test_a_plain_text_sitemap_has_one_url_a_line(tmp_path: Path, headers: bytes) -> None:
    lines = f"\ufeff{HERE}/1\r\n\r\n{HERE}/2\nnot a URL\n{HERE}/3"
    crawled = crawl_web(site(WorldAnswer(200, headers, lines.encode())), tmp_path, "a.test/")
    assert set(paths(crawled.requested(), "a.test")) == {"/robots.txt", "/", "/map", "/1", "/2", "/3"}


def test_an_index_announces_text_sitemaps_too(tmp_path: Path) -> None:
    index = f"<sitemapindex><sitemap><loc>{HERE}/more</loc></sitemap></sitemapindex>".encode()
    web = site(
        WorldAnswer(200, b"Content-Type: text/xml\r\n", index), more=WorldAnswer(200, TEXT, f"{HERE}/2\n".encode())
    )
    crawled = crawl_web(web, tmp_path, "a.test/")
    assert set(paths(crawled.requested(), "a.test")) == {"/robots.txt", "/", "/map", "/more", "/2"}


def test_a_page_that_is_announced_as_a_sitemap_is_read_as_the_page_it_is(tmp_path: Path) -> None:
    crawled = crawl_web(site(html("/3", text="our pages, for people")), tmp_path, "a.test/")
    assert "/3" in paths(crawled.requested(), "a.test")


def test_a_text_that_nobody_announced_is_no_sitemap(tmp_path: Path) -> None:
    pages = {"/": html("/map"), "/map": WorldAnswer(200, TEXT, f"{HERE}/1\n".encode()), "/1": html()}
    crawled = crawl_web(with_port(ScriptedWeb({"a.test": pages})), tmp_path, "a.test/")
    assert "/1" not in paths(crawled.requested(), "a.test")


def test_an_index_of_indexes_without_end_is_left_at_the_second(tmp_path: Path) -> None:
    """A server that makes up an index in every index led on until the host's budget was used up."""
    endless = ScriptedWeb({"a.test": {"/robots.txt": robots("User-agent: *\nSitemap: /map0"), "/": html(text="in")}})
    for number in range(9):
        listed = f"<sitemapindex><sitemap><loc>{HERE}/map{number + 1}</loc></sitemap></sitemapindex>".encode()
        endless.pages["a.test"][f"/map{number}"] = WorldAnswer(200, b"Content-Type: text/xml\r\n", listed)
    crawled = crawl_web(with_port(endless), tmp_path, "a.test/")
    assert set(paths(crawled.requested(), "a.test")) == {"/robots.txt", "/", "/map0", "/map1"}
