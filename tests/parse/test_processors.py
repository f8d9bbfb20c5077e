"""Processors by media type, several per document, users' own (A15)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from teia.errors import ConfigError
from teia.parse.document import Document, Findings, ListedUrl
from teia.parse.parse import ParseResult, parse_document
from teia.parse.processors import BUILT_IN, TEXT_TYPES, Processors, with_user_processors
from teia.records import Link

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
PAGE = b"<title>t</title><p>some words <a href=/x>here</a>"


def count_words(document: Document) -> Mapping[str, str]:
    """What a user might write: a mapping that becomes metadata."""
    return {"words": str(len(document.tree.body.text.split()))}


def find_more(_: Document) -> Findings:
    return Findings(
        title="ignored", author="me", links=(Link("http://a.test/more"), Link("http://a.test/x")), noindex=True
    )


def fail(_: Document) -> None:
    raise KeyError("no")


def nothing(_: Document) -> None:
    return None


def parsed(processors: Processors, head: bytes = HEAD, body: bytes = PAGE) -> ParseResult:
    return parse_document("http://a.test/", head, body, processors=processors)


def test_several_processors_read_one_document() -> None:
    both = BUILT_IN.with_added("text/html", "words", count_words).with_added("text/*", "more", find_more)
    page = parsed(both).page
    assert (page.title, page.author, page.noindex) == ("t", "me", True)
    assert page.metadata["words"] == "3"
    assert [link.url for link in page.links] == ["http://a.test/x", "http://a.test/more"]


def test_findings_take_their_fields_in_the_order_that_users_rely_on() -> None:
    link, entry = Link("http://a.test/x"), ListedUrl("http://a.test/y")
    found = Findings(
        "t", "words", ("h",), "pt", "d", "c", "me", "2026", {"a": "b"}, (link,), (entry,), True, False, ("cut",)
    )
    assert (found.title, found.metadata, found.links) == ("t", {"a": "b"}, (link,))
    assert (found.entries, found.noindex, found.nofollow, found.truncated) == ((entry,), True, False, ("cut",))


def test_a_failing_processor_costs_only_itself_and_is_reported() -> None:
    result = parsed(BUILT_IN.with_added("*/*", "mine", fail).with_added("*/*", "words", count_words))
    assert result.failed == ("mine: KeyError",)
    assert result.page.metadata["failed-processors"] == "mine: KeyError"
    assert (result.page.title, result.page.metadata["words"]) == ("t", "3")


def test_processors_see_only_their_types() -> None:
    mine = BUILT_IN.with_added("image/*", "mine", fail)
    assert parsed(mine).failed == ()
    assert parsed(mine, b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n", b"\x89PNG\r\n\x1a\n").failed == (
        "mine: KeyError",
    )


def test_a_processor_may_have_nothing_to_say() -> None:
    assert parsed(Processors([("*/*", "nothing", nothing)])).page.text == ""


def test_users_name_theirs_in_the_configuration() -> None:
    mine = with_user_processors([f"text/html={__name__}:count_words"])
    assert parsed(mine).page.metadata["words"] == "3"
    assert [name for name, _ in mine.for_type("text/html")] == ["html", f"{__name__}:count_words"]


@pytest.mark.parametrize(
    "name",
    [
        "text/html",
        "text/html=x",
        "html=a:b",
        "text/html=no_such_module:f",
        f"text/html={__name__}:no",
        f"a/b={__name__}:PAGE",
    ],
)
def test_a_wrong_name_is_refused_with_the_setting_it_stands_in(name: str) -> None:
    with pytest.raises(ConfigError, match=r"parse\.processors"):
        with_user_processors([name])


@pytest.mark.parametrize("media_type", TEXT_TYPES)
def test_texts_with_few_marks_are_read_as_they_are(media_type: str) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {media_type}; charset=utf-8\r\n\r\n".encode()
    page = parse_document("http://a.test/x", head, "# A naïve *text*\n".encode()).page
    assert (page.media_type, page.text) == (media_type, "# A naïve *text*")
