"""Pages broken on purpose, in ways that hide no link from a browser: none may be missed, none crashes a child (T6).

What a browser sees is known by construction: between links stand pieces that the HTML standard lets no link disappear
in, and a page that is cut has the links whose tags were whole. Cases whose outcome is less obvious are listed one by
one in parse/html/test_links.py.
"""

from __future__ import annotations

import asyncio
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from teia.parse.children.child import LostAnswer
from teia.parse.children.pool import ChildLimits, ChildPool
from teia.parse.parse import parse_document

from .children.test_pool import ask, pool_of
from .html.test_links import BROKEN
from .jobs import parsing

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html%b\r\n\r\n"

LINKS = [
    b'<a href="/%d">text</a>',
    b"<A HREF='/%d' >text",
    b"<a class=x href=/%d>text</a>",
    b"<a\n\ttitle='a > b'\n href=\"/%d\"\n>",
    b'<area shape=rect href="/%d">',
    b'<iframe src="/%d"></iframe>',
    b'<a/href="/%d"/>text',
]
NOISE = [
    b"<p>", b"</p>", b"<b>", b"</b></i>", b"<i><u>", b"<div>", b"</div></div>", b"<ul><li>", b"</li></ol>", b"<table>",
    b"<tr><td>", b"</td>", b"</table>", b"<td>", b"<br/>", b"</br>", b"<font color=red>", b"<center>", b"</span>",
    b"<!-- a comment -->", b"<!>", b"<!doctype html>", b"</>", b"<3", b"& &amp &#; &#x110000;", b"</body>", b"</html>",
    b"<html>", b"<head>", b"<body onload='x()'>", b"<script>var a = '<b>';</script>", b"<style>p{}</style>", b"</a>",
    b"<h1>", b"<h2></h1>", b"<form>", b"<form>", b"<input>", b"<nobr>", b"<marquee>", b"<object>", b"<dl><dd>", b"<hr>",
    b"\x00", b"\xfa\xff\xfb", b"\xe7\xe3o", b"\xc3\xa7\xc3\xa3o", b"\xed\xa0\x80", b"\r", b"<img src=x", b" alt=''>",
]  # fmt: skip
UNSAFE_BEFORE_A_TAG = {b"<img src=x"}
"""A tag that is left open swallows what follows up to the next `>`; the piece behind it in the list closes it."""

CHARSETS = [b"", b"; charset=utf-8", b"; charset=iso-8859-1", b"; charset=windows-1252", b"; charset=nonsense", b";;"]


@st.composite
def broken_pages(draw: st.DrawFn) -> tuple[list[bytes], list[str]]:
    """Pieces of a page, and the links in it."""
    pieces: list[bytes] = []
    links: list[str] = []
    for number in range(draw(st.integers(1, 12))):
        for noise in draw(st.lists(st.sampled_from(NOISE), max_size=5)):
            pieces += [noise, b" alt=''>"] if noise in UNSAFE_BEFORE_A_TAG else [noise]
        pieces.append(draw(st.sampled_from(LINKS)) % number)
        links.append(f"http://a.test/{number}")
    return pieces, links


def links_in(markup: bytes, charset: bytes = b"") -> list[str]:
    page = parse_document("http://a.test/", HEAD % charset, markup).page
    return sorted(link.url for link in page.links)


@settings(max_examples=400)
@given(broken_pages(), st.sampled_from(CHARSETS))
def test_no_link_of_a_broken_page_is_missed(page: tuple[list[bytes], list[str]], charset: bytes) -> None:
    pieces, links = page
    assert links_in(b"".join(pieces), charset) == sorted(links)


@settings(max_examples=200)
@given(broken_pages(), st.floats(0, 1))
def test_a_page_that_ends_too_early_has_the_links_that_came(page: tuple[list[bytes], list[str]], share: float) -> None:
    """Cut anywhere, in the middle of a tag, an attribute or a character."""
    pieces, links = page
    cut = int(sum(map(len, pieces)) * share)
    came, length = 0, 0
    for piece in pieces:
        is_link = any(piece == template % came for template in LINKS) if came < len(links) else False
        came += is_link and length + length_of_tag(piece) <= cut
        length += len(piece)
    assert links_in(b"".join(pieces)[:cut]) == sorted(links[:came])


def length_of_tag(piece: bytes) -> int:
    """Where the link's own tag ends; a `>` in a quoted value is no end."""
    quote = b""
    for place in range(len(piece)):
        sign = piece[place : place + 1]
        if quote:
            quote = b"" if sign == quote else quote
        elif sign in {b"'", b'"'}:
            quote = sign
        elif sign == b">":
            return place + 1
    raise AssertionError(piece)


# ---- in a child -----------------------------------------------------------------------------------------------------


def corpus() -> list[bytes]:
    """Every broken page there is, and each of them damaged further: bytes dropped, doubled, flipped, cut."""
    chance = random.Random(6)
    pages = [markup if isinstance(markup, bytes) else markup.encode() for markup, _ in BROKEN.values()]
    pages += [b"".join(chance.choices([*NOISE, *(link % 7 for link in LINKS)], k=200)) for _ in range(40)]
    damaged = []
    for page in pages:
        for _ in range(8):
            data = bytearray(page)
            for _ in range(chance.randint(1, 12)):
                place = chance.randrange(len(data) + 1)
                deed = chance.randrange(4)
                if deed == 0:
                    del data[place : place + chance.randint(1, 9)]
                elif deed == 1:
                    data[place:place] = chance.randbytes(chance.randint(1, 9))
                elif deed == 2:
                    data[place:place] = data[: chance.randint(0, len(data))]
                else:
                    del data[place:]
            damaged.append(bytes(data[:100_000]))
    return pages + damaged


def test_no_page_of_a_corpus_of_broken_html_costs_a_child() -> None:
    async def work(pool: ChildPool) -> list[bytes | LostAnswer]:
        return await asyncio.gather(*(ask(pool, page) for page in corpus()))

    async def run() -> None:
        async with asyncio.timeout(90), pool_of(1, ChildLimits(cpu_s=10.0), parsing) as pool:
            answers = await work(pool)
            assert [answer for answer in answers if isinstance(answer, LostAnswer)] == []
            assert len(answers) > 600
            assert pool.lost_children == 0

    asyncio.run(run())
