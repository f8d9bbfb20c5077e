"""What a parse child is asked, and what it makes of a page's links."""

from __future__ import annotations

import msgspec
import pytest

from teia.config.sections import ArchiveSettings, LimitSettings, ParseSettings, ScopeSettings
from teia.crawler.child.messages import (
    ReadResult,
    ReadSettings,
    ReadTask,
    SeenAnswer,
    SeenRecord,
    decode_parsed,
    decode_result,
    decode_task,
    encode,
    encode_parts,
)
from teia.crawler.child.read_answer import read
from teia.crawler.child.seen_answer import LinkScope
from teia.crawler.links import evaluate_links
from teia.frontier.cell.schema import BY_FEED, BY_LINK
from teia.index.entry import decode_entry
from teia.records import Link, LinkKind
from teia.urls import key_of

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"


def result_of(markup: str, *, obey_robots: bool = True, max_depth: int = 9) -> ReadResult:
    scope = ScopeSettings(include=("host:a.test",), types=("text/html",), max_depth=max_depth)
    read_settings = ReadSettings(scope, LimitSettings(), ParseSettings(), ArchiveSettings(), "teia", obey_robots)
    task = ReadTask(
        encode(read_settings), "page", "http://a.test/d/p", "200", 200, 1.0, 1.5, "127.0.0.1", b"", HEAD,
        "", "", 1, 0, body=markup.encode(),
    )  # fmt: skip
    return decode_result(read(encode(task)))


def test_links_are_followed_dropped_and_counted() -> None:
    markup = """<a href=/x>one</a><a href=/x#y>two</a><a href=y?q=1>three</a><a href=http://b.test/>out</a>
        <a href=/picture.png>no page</a><a rel=nofollow href=/no>never</a><a href=/s/s/s/s/>trap</a>"""
    result = result_of(markup)
    (links,) = result.links
    rows = [(key_of(f"http://a.test{tail}"), tail, BY_LINK, 1) for tail in ("/x", "/d/y?q=1")]
    assert (links.host, list(links.rows())) == ("a.test", rows)
    assert (result.links_seen, result.links_out_of_scope, result.links_unindexable) == (6, 2, 1)
    assert result_of(markup) == result, "what is remembered of a URL changes nothing"
    assert result_of(markup, max_depth=1).links == []


@pytest.mark.parametrize("ending", ["", "<frameset>"])
def test_images_and_mail_addresses_are_counted_on_every_page(ending: str) -> None:
    """Also on the next page with the same references, and where the scanner gives up and a tree is built."""
    markup = f"""<img src=1.png><IMG SRC=2.png><a href=mailto:x@a.test>x</a><a href=MailTo:y@a.test?subject=z>y</a>
        <a href=mailto:x@a.test>x again</a><a href=/x>z</a>{ending}"""
    for _ in range(2):
        result = result_of(markup)
        assert (result.images, result.mail_links, result.links_seen) == (2, 2, 1)


def test_nofollow_is_followed_where_nobody_obeys() -> None:
    assert [each.tails for each in result_of("<a rel=nofollow href=/no>x</a>", obey_robots=False).links] == [["/no"]]


def test_a_link_named_twice_is_one_with_all_that_is_known_of_it() -> None:
    links = (
        Link("http://a.test/x", LinkKind.ANCHOR, "", nofollow=True),
        Link("http://a.test/x", LinkKind.FEED, "feed"),
        Link("http://a.test/x", LinkKind.FRAME, "later"),
        Link("http://a.test/y", LinkKind.ANCHOR, "y", nofollow=True),
    )
    (obeyed,) = evaluate_links(links, str, str, obeys=True, too_deep=False)
    assert obeyed == (2, "feed", BY_FEED | BY_LINK, "http://a.test/x", True)
    ignored = evaluate_links(links, str, str, obeys=False, too_deep=False)
    assert [decision for _, _, _, decision, _ in ignored] == ["http://a.test/x", "http://a.test/y"]


def test_a_link_that_is_not_followed_is_no_evidence_of_a_link_in_a_feed() -> None:
    links = (
        Link("http://a.test/x", LinkKind.ANCHOR, "", nofollow=True),
        Link("http://a.test/x", LinkKind.FEED, "feed"),
    )
    assert [links_to for *_, links_to in evaluate_links(links, str, str, obeys=True, too_deep=False)] == [False]
    assert [links_to for *_, links_to in evaluate_links(links, str, str, obeys=False, too_deep=False)] == [True]


@pytest.mark.parametrize("size", [0, 1, 255, 256, 70_000])
def test_a_task_in_parts_is_the_same_task(size: int) -> None:
    task = ReadTask(b"s", "page", "http://a.test/", "200", 200, 1.0, 1.5, "", b"", HEAD, "", "", 1, 0, body=b"x" * size)
    message, body = encode_parts(task)
    assert body is task.body
    assert decode_task(message + body) == task


SENTENCES = "<p>This page of the manual says in the English language what each of the settings of the server does. " * 9
REPEATED = f"<html lang=en><title>Manual</title>{SENTENCES}<a href=/x>next</a>"


def _read_with_index(url: str, body: str, seen: SeenRecord | None = None) -> ReadResult:
    scope = ScopeSettings(include=("host:a.test",), types=("text/html",))
    settings = ReadSettings(scope, LimitSettings(), ParseSettings(), ArchiveSettings(), "teia", index=True)
    task = ReadTask(
        encode(settings), "page", url, "200", 200, 1.0, 1.5, "127.0.0.1", b"", HEAD, "", "", 1, 0, seen=seen,
        body=body.encode(),
    )  # fmt: skip
    return decode_result(read(encode(task)))


def _seen(first: ReadResult, url: str, **changed: object) -> SeenRecord:
    parsed = encode(msgspec.structs.replace(decode_parsed(first.parsed), **changed))
    return SeenRecord(parsed, answer=SeenAnswer(url, 1.0, first.payload_digest, first.record_id, HEAD))


def test_an_answer_with_a_known_body_and_known_links_has_an_index_entry() -> None:
    """The indexer would read it from the archive again otherwise, in a parse child of its own."""
    first = _read_with_index("http://a.test/d/p", REPEATED)
    second = _read_with_index("http://a.test/d/q", REPEATED, _seen(first, "http://a.test/d/p"))
    assert (second.same_as, second.links) == ("http://a.test/d/p", [])
    one, other = decode_entry(first.entry), decode_entry(second.entry)
    assert other == msgspec.structs.replace(one, url="http://a.test/d/q", key=key_of("http://a.test/d/q"))


def test_the_text_of_a_known_body_in_another_folder_is_not_judged_again() -> None:
    first = _read_with_index("http://a.test/d/p", REPEATED)
    alone = _read_with_index("http://a.test/e/p", REPEATED)
    seen = _seen(first, "http://a.test/d/p", scope=LinkScope.NOWHERE)
    second = _read_with_index("http://a.test/e/p", REPEATED, seen)
    assert second.links == alone.links
    for each in (second, alone):
        judged = each.text_digest, each.simhash, each.outline, each.language
        assert judged == (first.text_digest, first.simhash, first.outline, "en")
    assert second.entry == alone.entry
    taken = _read_with_index("http://a.test/e/p", REPEATED, _seen(first, "http://a.test/d/p", scope=3, simhash=1))
    assert taken.simhash == 1
    # A text with another outline was extracted by other settings, or from an answer with other headers.
    other = _seen(first, "http://a.test/d/p", scope=3, simhash=1, language="fr", outline=1)
    assert _read_with_index("http://a.test/e/p", REPEATED, other).simhash == first.simhash
    assert _read_with_index("http://a.test/e/p", REPEATED, other).language == "en"
