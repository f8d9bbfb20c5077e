"""What we know of one URL: is our copy current, when is it visited next, who links to it (F5, T10, P9)."""

from __future__ import annotations

from fastapi.responses import RedirectResponse

from teia.crawl.pageview import PageView, page_view
from teia.errors import StoreError
from teia.web.rendering import link
from teia.web.roles import Role
from teia.web.site import Site
from teia.web.twins import API, OfSite, Pages


def add_to(pages: Pages) -> None:
    pages.page("/c/{collection}/page", "page.html", Role.PUBLIC)(page)
    pages.add("GET", "/page", Role.PUBLIC, find_page, include_in_schema=False, response_class=RedirectResponse)
    pages.add("GET", f"{API}/pages", Role.PUBLIC, page_anywhere, response_model=PageView)


def page(site: OfSite, collection: str, url: str) -> PageView:
    """Everything about one page of a collection."""
    config = site.config(collection)
    with site.lookup(collection) as lookup:
        return page_view(lookup, url, config, site.clock)


def page_anywhere(site: OfSite, url: str, c: str = "") -> PageView:
    """Everything about one page, of the first collection that knows it."""
    return _found(site, url, c)[1]


def find_page(site: OfSite, url: str) -> RedirectResponse:
    """Lead to a page in the first collection that knows it."""
    return RedirectResponse(link(f"/c/{_found(site, url, '')[0]}/page", url=url), 303)


def _found(site: Site, url: str, collection: str) -> tuple[str, PageView]:
    names = [site.check(collection)] if collection else site.names()
    for name in names:
        try:
            return name, page(site, name, url)
        except StoreError:
            if name == names[-1]:
                raise
    raise StoreError("there is no collection yet")
