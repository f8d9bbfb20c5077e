"""Search for other programs: an OpenSearch description for browsers, and results as a feed."""

from __future__ import annotations

from email.utils import formatdate
from typing import Annotated
from xml.sax.saxutils import escape, quoteattr

from fastapi import Query, Request
from fastapi.responses import Response

from teia.search.show.results import Hit
from teia.web.access.roles import Role
from teia.web.server.atom import xml_text
from teia.web.server.json_routes import InstallationDep, PageRoutes
from teia.web.server.templates import link

ITEMS = 20


def add_routes(pages: PageRoutes) -> None:
    for path, endpoint in (("/opensearch.xml", description), ("/search.rss", feed)):
        pages.add("GET", path, Role.PUBLIC, endpoint, include_in_schema=False, response_class=Response)


def description(request: Request) -> Response:
    """Return the OpenSearch description."""
    here = _origin(request)
    text = f"""<?xml version="1.0" encoding="UTF-8"?>
<OpenSearchDescription xmlns="http://a9.com/-/spec/opensearch/1.1/">
<ShortName>teia</ShortName>
<Description>{escape(f"The pages of {here}")}</Description>
<InputEncoding>UTF-8</InputEncoding>
<Image height="32" width="32" type="image/svg+xml">{escape(here)}/static/icon.svg</Image>
<Url type="text/html" template={quoteattr(f"{here}/search?q={{searchTerms}}")}/>
<Url type="application/rss+xml" template={quoteattr(f"{here}/search.rss?q={{searchTerms}}")}/>
</OpenSearchDescription>
"""
    return Response(text, media_type="application/opensearchdescription+xml")


def feed(
    request: Request, installation: InstallationDep, q: Annotated[str, Query(max_length=2_000)] = "", c: str = ""
) -> Response:
    """Return the results of a query as RSS 2.0, for readers that wait for new ones."""
    here = _origin(request)
    found = installation.search(c or None).search(q, ITEMS)
    items = "".join(_item(hit) for hit in found.hits)
    text = f"""<?xml version="1.0" encoding="UTF-8"?>
<rss version="2.0" xmlns:opensearch="http://a9.com/-/spec/opensearch/1.1/"><channel>
<title>{xml_text(q)} · teia</title>
<link>{xml_text(here + link("/search", q=q, c=c))}</link>
<description>{xml_text(found.understood)}</description>
<opensearch:totalResults>{found.total}</opensearch:totalResults>
{items}</channel></rss>
"""
    return Response(text, media_type="application/rss+xml")


def _item(hit: Hit) -> str:
    dated_s = hit.date_s or hit.last_visit_s
    date = f"<pubDate>{formatdate(dated_s, usegmt=True)}</pubDate>" if dated_s else ""
    return (
        f"<item><title>{xml_text(hit.title.plain() or hit.url)}</title><link>{xml_text(hit.url)}</link>"
        f'<guid isPermaLink="true">{xml_text(hit.url)}</guid><description>{xml_text(hit.snippet.plain())}</description>'
        f"{date}</item>\n"
    )


def _origin(request: Request) -> str:
    return f"{request.url.scheme}://{request.url.netloc}"
