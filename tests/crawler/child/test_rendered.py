"""A page as its scripts show it, read by the child: gain, links, records."""

from __future__ import annotations

import msgspec
import pytest

from teia.config.sections import ArchiveSettings, LimitSettings, ParseSettings, ScopeSettings
from teia.crawler.child.messages import (
    ReadResult,
    ReadSettings,
    ReadTask,
    RenderedDocument,
    decode_result,
    encode,
    encode_parts,
)
from teia.crawler.child.read_answer import read

URL = "http://a.test/page"
HEAD = b'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: "x"\r\nX-Robots-Tag: nofollow\r\n\r\n'
BODY = b'<title>App</title><div id="root"></div><script src="/app.js"></script>'


def result_of(rendered: RenderedDocument | None = None, *, render: str = "auto", body: bytes = BODY) -> ReadResult:
    settings = ReadSettings(
        ScopeSettings(), LimitSettings(), ParseSettings(), ArchiveSettings(), "teia", obeys_robots=False, render=render
    )
    task = ReadTask(
        encode(settings), "page", URL, "200", 200, 1.0, 2.0, "192.0.2.1", b"GET /page HTTP/1.1\r\n\r\n", HEAD, "", "",
        0, 0, earlier_digest="sha256:x", rendered=rendered, body=body,
    )  # fmt: skip
    return decode_result(read(b"".join(encode_parts(task))))


@pytest.mark.parametrize("render", ["never", "auto", "always"])
def test_signs_are_looked_for_where_they_are_wanted(render: str) -> None:
    with_scripts, plain = result_of(render=render), result_of(render=render, body=b"<p>plain")
    assert (with_scripts.signs is not None) == (render != "never")
    assert (plain.signs is not None) == (render == "always")
    if with_scripts.signs is not None:
        assert with_scripts.signs.is_empty
        assert with_scripts.signs.scripts


def test_a_rendered_page_has_the_text_and_the_links_that_its_scripts_made_and_no_validators() -> None:
    document = b'<title>Shown</title><p>Words that came late</p><a href="/next">next</a>'
    result = result_of(RenderedDocument(document, 3.0, ["http://a.test/app.js"]))
    assert result.is_rendered
    assert result.title == "Shown"
    assert [host.tails for host in result.links] == [["/next"]]
    assert (result.etag, result.last_modified, result.signs, result.parsed) == ("", "", None, b"")
    assert result.kinds == ("request", "response", "metadata", "conversion")
    assert len(result.members) == sum(result.lengths)
    assert result.gain is not None
    assert (result.gain.words, result.gain.links, len(result.gain.added)) == (5, 1, 6)
    # The digest is that of the rendered document, and the payload's that of the answer.
    assert result.digest.hex() not in result.payload_digest


def test_a_document_without_anything_new_changes_nothing() -> None:
    result = result_of(RenderedDocument(b"<title>App</title><p>17:05:33</p>", 3.0))
    as_received = msgspec.structs.replace(result_of(), signs=None, parsed=result.parsed, record_id=result.record_id)
    assert result.gain is not None
    assert not result.gain.added
    assert msgspec.structs.replace(result, gain=None) == as_received


def test_a_page_that_leads_elsewhere_gains_that_link() -> None:
    result = result_of(RenderedDocument(b"<title>App</title>", 3.0, leads_to=["http://a.test/other"]))
    assert result.gain is not None
    assert result.gain.links == 1
    assert [host.tails for host in result.links] == [["/other"]]
