"""Pages that are meant to break parsers: bounded, and never silently."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from teia.config.sections import LimitSettings
from teia.parse.document import ParseOptions
from teia.parse.html.bounds import MAX_DEPTH, MAX_TAGS, SUSPICIOUS_TAGS, limit_markup
from teia.parse.parse import ParseResult, parse_document
from tests.timing import within

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"


def parsed(markup: str) -> ParseResult:
    return parse_document("http://a.test/", HEAD, markup.encode(), ParseOptions())


def test_ordinary_pages_are_not_touched() -> None:
    page = "<div><p>text</p></div>" * 5_000
    assert limit_markup(page) == (page, ())


def test_deep_tags_go_and_their_text_stays() -> None:
    page = "<div>x" * 30_000 + "<a href=/deep>the end</a>"
    flat, lost = limit_markup(page)
    assert lost == ("depth",)
    assert flat.count("<div>") == MAX_DEPTH
    assert flat.count("x") == 30_000
    assert flat.endswith("<a href=/deep>the end</a>")


def test_tags_in_scripts_and_comments_do_not_count_as_depth() -> None:
    page = "<script>'<div><div><div>'</script><!-- <div><div> --><p>x" * 10_000
    assert limit_markup(page)[1] == ()


def test_siblings_are_not_depth() -> None:
    assert limit_markup("<section><b>x</b><br><li>y</section>" * 10_000)[1] == ()


BOMBS: dict[str, tuple[Callable[[], str], str]] = {
    "a million div": (lambda: "before<div>" * 10**6, "depth tags"),
    "100,000 tables": (lambda: "<table><tr><td>before" * 10**5, "depth tags"),
    "100,000 lists": (lambda: "before" + "<ul><li>" * 10**5, "depth"),
    "a million links": (lambda: "before" + "".join(f"<a href={n}>" for n in range(10**6)), "tags links"),
    "a million paragraphs": (lambda: "before" + "<p>x" * 10**6, "tags"),
    "a million attributes": (
        lambda: "before<a " + " ".join(f"a{n}=1" for n in range(10**6)) + ">after",
        "attributes",
    ),
    "a million entities": (lambda: "before" + "&amp;" * 10**6, ""),
    "20 MiB attribute": (lambda: f"before<a title='{'x' * 20 * 2**20}'>after", ""),
    "30 MiB script": (lambda: "before<script>" + "x" * 30 * 2**20, ""),
    "a comment that never ends": (lambda: "before<!--" + "x" * 10 * 2**20, ""),
    "half a million srcset candidates": (lambda: "before<img srcset='" + "a 1x," * 500_000 + "'>", ""),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_read_up_to_the_limit(name: str) -> None:
    make, lost = BOMBS[name]
    markup = make()
    result = within(10, lambda: parsed(markup))
    assert result.failed == ()
    assert result.page.text.startswith("before")
    assert result.page.truncated == lost


def test_cut_after_so_many_tags() -> None:
    cut, lost = limit_markup("<i></i>" * MAX_TAGS)
    assert (cut.count("<"), lost) == (MAX_TAGS, ("tags",))


def test_a_page_of_very_many_tags_is_read_as_it_came() -> None:
    """A manual's index has 60,000 tags: the scanner takes them one by one, and nothing is counted or cut before."""
    page = "<p>before</p>" + "".join(f"<dt><a href=/{n}>{n}</a></dt>" for n in range(SUSPICIOUS_TAGS))
    result = parsed(page)
    assert result.page.truncated == "links"
    assert result.page.text.startswith("before")
    assert len(result.page.links) == LimitSettings().links_per_page
    nested = "<section>" * (MAX_DEPTH + 1) + "<b>x</b>" * SUSPICIOUS_TAGS
    assert parsed(nested).page.truncated == "depth", "what the scanner gives up is cut, and goes through a tree"
