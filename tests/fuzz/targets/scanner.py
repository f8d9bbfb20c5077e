"""The page scanner: what it reads is what the tree shows, or it gives up."""

from __future__ import annotations

from teia.parse import scan
from tests.parse.test_scan import FRAMES, TAGS, compare

SEEDS = (
    b"<!doctype html><html lang=pt><head><title>t</title><base href=/b/><meta name=robots content=noindex></head><body>"
    b"<h1>One</h1><p>two <a href='x?a=1&amp;b' rel=nofollow>three</a><ul><li>four<li>five</ul><pre> a\n b</pre>",
    b"<table><tr><td>1<td>2<tr><th>3</table><select><option>a<option>b</select><textarea>x</textarea>",
    b"<svg><a href=/x>y</a><title>z</title></svg><math><mi>x</mi></math><script>if (a<b) {}</script><style>p{}</style>",
    b"<b>one<p>two</b>three<!-- c --><![CDATA[x]]><?php x ?></p></br>&copy;&#x80;&notit;&#0;\xc3\xa9\xf0\x9f\x98\x80",
    *(frame.format(tag).encode() for frame, tag in zip(FRAMES, TAGS[7::9], strict=False)),
)


def fuzz_one(data: bytes) -> None:
    scan.is_plain(data)
    markup = data if scan.is_plain(data) else data.decode("utf-8", "replace").encode()
    if scan.is_plain(markup):
        scan.scan(markup, want_text=False)
        compare(markup)
