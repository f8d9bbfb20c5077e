"""The FastAPI application: all routes with their authorisation, behind the security headers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.responses import JSONResponse
from starlette.staticfiles import StaticFiles

from teia.version import __version__
from teia.web import events
from teia.web.access.roles import Role
from teia.web.pages.collection import (
    add_urls,
    bulk,
    collections,
    crawl_runs,
    data,
    edit,
    freshness,
    host,
    monitor,
    queue,
    reports,
    watches,
)
from teia.web.pages.collection import (
    hosts as collection_hosts,
)
from teia.web.pages.finding import capture, capture_calendar, cdx_server, diff, feeds, memento, page, raw, search
from teia.web.pages.inbound import indexnow, websub
from teia.web.pages.lab import run_forms, runs
from teia.web.pages.machine import api, cluster, figures, metrics
from teia.web.pages.people import people, sign_in
from teia.web.server import errors
from teia.web.server.headers import HEALTH, SecurityMiddleware
from teia.web.server.headline import headline_of
from teia.web.server.installation import Installation
from teia.web.server.json_routes import API, PageRoutes, RouteAccess
from teia.web.server.templates import HERE, Renderer

MODULES = (
    search,
    api,
    page,
    collections,
    edit,  # before the monitor, whose /c/{collection} would match /c/new
    monitor,
    collection_hosts,
    host,
    queue,
    bulk,
    add_urls,
    freshness,
    data,
    people,
    sign_in,
    capture,
    capture_calendar,
    raw,
    memento,
    cdx_server,
    diff,
    feeds,
    indexnow,
    websub,
    watches,
    reports,
    crawl_runs,
    cluster,
    runs,
    run_forms,
    metrics,
    figures,
    events,
)
LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})


def make_app(installation: Installation, names: Collection[str] = LOOPBACK_NAMES) -> FastAPI:
    """Build the application; it answers only requests for these host names."""

    @asynccontextmanager
    async def while_open(app: FastAPI) -> AsyncIterator[None]:
        yield
        app.state.installation.close()

    app = FastAPI(
        title="teia",
        version=__version__,
        description="Read and control one installation of teia.",
        # FastAPI's own pages load scripts from another site, which the CSP forbids; /api replaces them.
        docs_url=None,
        redoc_url=None,
        openapi_url=f"{API}/openapi.json",
        lifespan=while_open,
        middleware=[Middleware(SecurityMiddleware, clock=installation.clock, names=names)],
    )
    app.state.installation = installation
    app.state.hub = events.Hub()
    renderer = Renderer(installation.clock, lambda request: headline_of(request.app.state.installation))
    errors.install(app, renderer)
    pages = PageRoutes(renderer)
    for module in MODULES:
        module.add_routes(pages)
    pages.access_table.append(RouteAccess("GET", HEALTH, Role.PUBLIC, None))
    # Not by `PageRoutes.add`: its dependencies run in worker threads, which may all be busy.
    app.add_api_route(HEALTH, health, methods=["GET"], include_in_schema=False)
    app.include_router(pages.router)
    app.mount("/static", StaticFiles(directory=HERE / "static"), "static")
    app.state.access_table = tuple(pages.access_table)
    return app


async def health() -> JSONResponse:
    """Report that the server is alive.

    This is a coroutine and needs no worker thread, so it answers even while all threads are busy.
    """
    return JSONResponse({"status": "ok", "version": __version__})


def list_routes(app: FastAPI) -> tuple[RouteAccess, ...]:
    """Return all routes of an application with the roles they need."""
    found: tuple[RouteAccess, ...] = app.state.access_table
    return found
