"""What comes back of a copy that is to be looked at."""

from __future__ import annotations

from teia.crawler.child.read_copy import CaptureRequest, decode_template, decode_text, encode, work

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"


def test_a_copy_says_what_its_tree_lost_even_where_its_text_lost_nothing() -> None:
    """The scanner takes far more tags than a tree does."""
    paths = b"<path d='M0 0'/>" * 25_000
    body = b"<!doctype html><title>t</title><svg>" + paths + b"</svg><p><a href=/x>after</a></p>"
    wanted = {name: encode(CaptureRequest(name, "http://a.test/", HEAD, body)) for name in ("page", "text")}
    shown, text = decode_template(work(wanted["page"])), decode_text(work(wanted["text"]))
    assert shown.markup.count("<path") < 25_000
    assert shown.truncated == "depth"
    assert text.truncated == ""
    assert text.links == ("http://a.test/x",)
