"""The application: every route behind its gate, the shield around all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.staticfiles import StaticFiles

from teia import __version__
from teia.web import events, problems
from teia.web.headline import headline_of
from teia.web.pages import (
    adding,
    api,
    bulk,
    cluster,
    collections,
    copy,
    data,
    diff,
    editing,
    feeds,
    freshness,
    frontier,
    hostlist,
    hosts,
    hubs,
    lab,
    lab_forms,
    metrics,
    monitor,
    page,
    pings,
    raw,
    reports,
    search,
    settings,
    signing_in,
    watches,
)
from teia.web.rendering import HERE, Renderer
from teia.web.roles import Role
from teia.web.shield import Shield
from teia.web.site import Site
from teia.web.twins import API, Gate, Pages

MODULES = (
    search,
    api,
    page,
    collections,
    editing,  # before the monitor: /c/new is no collection
    monitor,
    hostlist,
    hosts,
    frontier,
    bulk,
    adding,
    freshness,
    data,
    settings,
    signing_in,
    copy,
    raw,
    diff,
    feeds,
    pings,
    hubs,
    watches,
    reports,
    cluster,
    lab,
    lab_forms,
    metrics,
    events,
)
LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})


def make_app(site: Site, names: Collection[str] = LOOPBACK_NAMES) -> FastAPI:
    """Put the application together; it answers to these host names only."""

    @asynccontextmanager
    async def while_open(app: FastAPI) -> AsyncIterator[None]:
        yield
        app.state.site.close()

    app = FastAPI(
        title="teia",
        version=__version__,
        description="What one installation of teia holds, and how it is told what to do.",
        docs_url=None,
        redoc_url=None,
        openapi_url=f"{API}/openapi.json",
        lifespan=while_open,
        middleware=[Middleware(Shield, clock=site.clock, names=names)],
    )
    app.state.site = site
    app.state.hub = events.Hub()
    renderer = Renderer(site.clock, lambda request: headline_of(request.app.state.site))
    problems.install(app, renderer)
    pages = Pages(renderer)
    for module in MODULES:
        module.add_to(pages)
    pages.add("GET", "/health", Role.PUBLIC, health, include_in_schema=False)
    app.include_router(pages.router)
    app.mount("/static", StaticFiles(directory=HERE / "static"), "static")
    app.state.gates = tuple(pages.gates)
    return app


def health() -> dict[str, str]:
    """Say that we are here."""
    return {"status": "ok", "version": __version__}


def gates_of(app: FastAPI) -> tuple[Gate, ...]:
    """All routes of an application with the roles they need."""
    found: tuple[Gate, ...] = app.state.gates
    return found
