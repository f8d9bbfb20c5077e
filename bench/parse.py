"""Microseconds per stage of parsing one page: about 22 kB, 90 links (half of them a menu), gzip and chunks.

    python -m bench.parse [--pages 100]

Figures are processor time, best of ten rounds, so that a busy machine disturbs little. The last line is the parent's
cost of sending a page through a child and back.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import random
import time
from collections.abc import Callable
from itertools import cycle

from resiliparse.parse.html import HTMLTree

from teia.clock import WallClock
from teia.config.sections import CollectionSettings, Config, LimitSettings
from teia.crawler.child.messages import ReadTask, encode
from teia.crawler.child.read_answer import read
from teia.crawler.compiled_settings import encode_read_settings
from teia.parse.children.child import Job
from teia.parse.children.pool import ChildLimits, ChildPool, LostAnswer
from teia.parse.decode import decode
from teia.parse.document import Document, Findings, ParseOptions
from teia.parse.headers import parse_head
from teia.parse.html.processor import read_html
from teia.parse.html.tree import TreeExtract
from teia.parse.parse import parse_document
from teia.parse.scan import scan
from teia.parse.text.encoding import determine_encoding
from teia.parse.text.fingerprint import fingerprints
from teia.parse.text.language import language_of

URL = "http://bench.test/section/page.html"
VARIANTS = 500
"""Number of pages with one menu and links of their own: more than the cache of references can hold."""

WORD_LETTERS = "etaoinshrdlu"


def make_words(chance: random.Random, count: int = 200) -> list[str]:
    return ["".join(chance.choices(WORD_LETTERS, k=chance.randint(1, 9))) for _ in range(count)]


def make_page(links: int = 90, size_bytes: int = 22_000, seed: int = 1) -> bytes:
    """Make a page with a menu, paragraphs, headings, pictures and links in the text."""
    chance = random.Random(seed)
    vocabulary = make_words(chance)
    parts = [
        "<!DOCTYPE html><html lang=en><head><meta charset=utf-8><title>A page &amp; its title</title>"
        '<meta name=description content="what it is about"><link rel=canonical href="/section/page.html">'
        '<link rel=stylesheet href="/s.css"><meta property="og:title" content="title"></head><body><ul class=menu>'
    ]
    parts += [
        f'<li><a href="/part/{n}.html" class="item">{chance.choice(vocabulary)}</a></li>' for n in range(links // 2)
    ]
    parts.append("</ul><h1>The first heading</h1>")
    used = links // 2
    while sum(map(len, parts)) < size_bytes:
        words = " ".join(chance.choice(vocabulary) for _ in range(60))
        for _ in range(2):
            if used < links:
                query = f"?q={used}&amp;x=1" if used % 5 == 0 else ""
                words += f' <a href="../other/{seed}-{used}{query}">{chance.choice(vocabulary)} <b>so</b></a> '
                used += 1
        parts.append(
            f"<div class=post><h2>{chance.choice(vocabulary)}</h2><p>{words}.</p><img src='/i/{used}.png' alt=''></div>"
        )
    return "".join((*parts, "</body></html>")).encode()


def chunked(body: bytes, chunk_bytes: int = 8_192) -> bytes:
    chunks = [body[at : at + chunk_bytes] for at in range(0, len(body), chunk_bytes)]
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"


def microseconds(work: Callable[[], object], pages: int) -> float:
    work()
    best = float("inf")
    for _ in range(10):
        start = time.process_time()
        for _ in range(pages):
            work()
        best = min(best, (time.process_time() - start) / pages)
    return best * 1e6


def stages(pages: list[bytes]) -> dict[str, Callable[[], object]]:
    """Return each stage as a function that takes the next page at each call."""
    options = ParseOptions(LimitSettings())
    without_text = ParseOptions(options.limits, want_text=False)
    with_requisites = ParseOptions(options.limits, want_requisites=True)
    raw = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
    head = parse_head(raw)
    bodies = [chunked(gzip.compress(page, 6)) for page in pages]
    wire = cycle(bodies)
    task = cycle([task_of(f"{URL}?{number}", raw, body) for number, body in enumerate(bodies)])
    page = cycle(pages)
    markup = cycle([each.decode() for each in pages])
    text = cycle([read_html(Document(URL, head, each, options)).text for each in pages])
    return {
        "decode (chunks, gzip)": lambda: decode(head.headers, next(wire), options.limits),
        "encoding": lambda: determine_encoding(next(page), "", is_html=True),
        "scan": lambda: scan(next(page), want_text=True),
        "scan without text": lambda: scan(next(page), want_text=False),
        "tree (lexbor)": lambda: HTMLTree.parse(next(markup)),
        "html": lambda: read_html(Document(URL, head, next(page), options)),
        "html without text": lambda: read_html(Document(URL, head, next(page), without_text)),
        "html through a tree": lambda: through_a_tree(Document(URL, head, next(page), options)),
        "language": lambda: language_of(next(text), "en"),
        "fingerprints": lambda: fingerprints(next(page), next(text)),
        "parse_document": lambda: parse_document(URL, raw, next(wire), options),
        "parse_document, requisites": lambda: parse_document(URL, raw, next(wire), with_requisites),
        "the whole job of a child": lambda: read(next(task)),
    }


def through_a_tree(document: Document) -> Findings:
    """Parse a page by its tree, as for pages at which the scanner gives up."""
    document.__dict__["extract"] = TreeExtract(document.tree, want_text=document.options.want_text)
    return read_html(document)


def task_of(url: str, head: bytes, body: bytes) -> bytes:
    """Return the task that the crawler sends to a child: the answer, and the settings for parsing it."""
    settings = encode_read_settings(Config(collection=CollectionSettings(seeds=(URL,))))
    request = (
        b"GET /section/page.html HTTP/1.1\r\nHost: bench.test\r\nUser-Agent: teia\r\nAccept-Encoding: gzip\r\n\r\n"
    )
    return encode(
        ReadTask(settings, "page", url, "200", 200, 0.0, 0.2, "127.0.0.1", request, head, "", "", 3, 0, body=body)
    )


def echo(payload: bytes) -> bytes:
    """Job of the transport benchmark: a third of a page in, half a page out."""
    return payload + payload[: len(payload) // 2]


def echo_job() -> Job:
    """Return that job."""
    return echo


async def transport(items: int) -> tuple[float, float]:
    """Return processor time of this process, and wall time, per item; in microseconds."""
    pool = ChildPool(echo_job, 1, ChildLimits(), WallClock())
    await pool.start()
    payload = random.Random(1).randbytes(7_000)
    room = asyncio.Semaphore(256)

    def answered(_: bytes | LostAnswer) -> None:
        room.release()

    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(items):
        await room.acquire()
        pool.submit(payload, done=answered)
    for _ in range(256):
        await room.acquire()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    await pool.close()
    return cpu / items * 1e6, wall / items * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=100, help="pages per round")
    arguments = parser.parse_args()
    pages = [make_page(seed=seed) for seed in range(VARIANTS)]
    print(f"page: {len(pages[0])} bytes, {pages[0].count(b'<a ')} links")
    for name, work in stages(pages).items():
        print(f"{name:28s} {microseconds(work, arguments.pages):7.0f} us")
    cpu_us, wall_us = asyncio.run(transport(20 * arguments.pages))
    print(f"{'through a child, parent CPU':28s} {cpu_us:7.1f} us   (wall {wall_us:.1f} us)")


if __name__ == "__main__":
    main()
