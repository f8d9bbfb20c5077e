"""A page and its JSON route from one function.

    @pages.page("/c/{collection}/hosts", "hosts.html", Role.VIEWER)
    def hosts(site: SiteDep, collection: str, state: str = "") -> HostsView: ...

makes `GET /c/{collection}/hosts`, the record rendered by the template, and `GET /api/v1/c/{collection}/hosts`, the same
record as JSON. Both need the same role. A route without a role cannot be made, and the authorisation test checks the
table of all routes with their roles (`PageRoutes.access_table`). The first line of the function's docstring becomes the
summary of the API's documentation.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_type_hints

from fastapi import APIRouter, Body, Depends, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from teia.web.access.roles import Role, TokenScope, scope_of
from teia.web.server.auth import Visitor, require, visitor_of
from teia.web.server.installation import Installation, site_of
from teia.web.server.templates import Renderer

API = "/api/v1"
Make = TypeVar("Make", bound=Callable[..., Any])
Change = TypeVar("Change", bound=Callable[..., "ActionResult"])

VisitorDep = Annotated[Visitor, Depends(visitor_of)]


def visible_site(site: Annotated[Installation, Depends(site_of)], visitor: VisitorDep) -> Installation:
    """Return the installation as the sender of the request may see it."""
    return site if visitor.may(Role.VIEWER) else site.public_view()


SiteDep = Annotated[Installation, Depends(visible_site)]


@dataclass(frozen=True, slots=True)
class RouteAccess:
    """One route with its role and scope, for the authorisation test."""

    method: str
    path: str
    role: Role
    scope: TokenScope | None


@dataclass(frozen=True, slots=True)
class ActionResult:
    """Result of a change: a sentence, and the address that shows it."""

    message: str
    to: str


class RedirectTo(Exception):  # not an error: redirects to another address
    """Raised to redirect to another address of this site."""

    def __init__(self, to: str) -> None:
        super().__init__(to)
        self.to = to


class PageRoutes:
    """Collector of routes; `router` has them all."""

    def __init__(self, renderer: Renderer) -> None:
        self.router = APIRouter()
        self.access_table: list[RouteAccess] = []
        self._renderer = renderer

    def page(self, path: str, template: str, role: Role, *, with_json: bool = True) -> Callable[[Make], Make]:
        """Register the function that makes a page's record."""

        def register(make: Make) -> Make:
            record = get_type_hints(make)["return"]
            view_of = Annotated[Any, Depends(make)]

            def as_page(request: Request, visitor: VisitorDep, view: Any) -> HTMLResponse:
                return self._renderer.response(request, visitor, template, view)

            def as_json(view: Any) -> Any:
                return view

            for endpoint in (as_page, as_json):  # FastAPI reads these annotations: the view comes from `make`
                endpoint.__annotations__ |= {"request": Request, "visitor": VisitorDep, "view": view_of}
            self.add("GET", path, role, as_page, response_class=HTMLResponse, include_in_schema=False)
            if with_json:
                summary = (make.__doc__ or "").partition("\n")[0]
                name = f"{make.__module__.rpartition('.')[2]}_{make.__name__}"
                self.add("GET", API + path, role, as_json, response_model=record, summary=summary, operation_id=name)
            return make

        return register

    def action(self, path: str, role: Role) -> Callable[[Change], Change]:
        """Register a change: a form's POST, which redirects to a page, and the API's, which returns `ActionResult`.

        The function's parameter `form` is a pydantic model of the request; it is read from form fields or from JSON.
        """

        def register(change: Change) -> Change:
            def as_form(**given: Any) -> RedirectResponse:
                done = change(**given)
                # 303: the browser continues with GET, and a reload sends the form no second time.
                return RedirectResponse(done.to, 303)

            # FastAPI reads the parameters from the signature and passes them as keywords.
            as_form.__signature__ = _signature_from(change, Form())  # type: ignore[attr-defined]
            as_api = _with_signature(change, _signature_from(change, Body()))
            summary = (change.__doc__ or "").partition("\n")[0]
            name = f"{change.__module__.rpartition('.')[2]}_{change.__name__}"
            self.add("POST", path, role, as_form, include_in_schema=False, response_class=RedirectResponse)
            self.add("POST", API + path, role, as_api, response_model=ActionResult, summary=summary, operation_id=name)
            return change

        return register

    def reveal(self, path: str, template: str, role: Role) -> Callable[[Make], Make]:
        """Register a change whose result is shown once, in the page after the form: a new token, a new link."""

        def register(change: Make) -> Make:
            record = get_type_hints(change)["return"]

            def as_form(request: Request, visitor: VisitorDep, **given: Any) -> HTMLResponse:
                shown = change(visitor=visitor, **given)
                return self._renderer.response(request, visitor, template, shown)

            signature = _signature_from(change, Form())
            # `request` is needed for rendering only; FastAPI finds it by the signature.
            request_parameter = inspect.Parameter("request", inspect.Parameter.KEYWORD_ONLY, annotation=Request)
            others = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in signature.parameters.values()]
            as_form.__signature__ = signature.replace(parameters=[request_parameter, *others])  # type: ignore[attr-defined]
            as_api = _with_signature(change, _signature_from(change, Body()))
            summary = (change.__doc__ or "").partition("\n")[0]
            name = f"{change.__module__.rpartition('.')[2]}_{change.__name__}"
            self.add("POST", path, role, as_form, include_in_schema=False, response_class=HTMLResponse)
            self.add("POST", API + path, role, as_api, response_model=record, summary=summary, operation_id=name)
            return change

        return register

    def render(self, request: Request, visitor: Visitor, template: str, view: Any, status: int) -> HTMLResponse:
        """Render a page, for routes that are neither a page nor a change."""
        return self._renderer.response(request, visitor, template, view, status)

    def add(self, method: str, path: str, role: Role, endpoint: Callable[..., Any], **how: Any) -> None:
        """Add one route with its role, for routes that are neither a page nor a change."""
        scope = scope_of(method, path.removeprefix(API) or "/", role)
        self.access_table.append(RouteAccess(method, path, role, scope))
        # The only place where routes are added, so none is without this check.
        route = Depends(require(role, scope))
        self.router.add_api_route(path, endpoint, methods=[method], dependencies=[route], **how)


def _signature_from(change: Callable[..., Any], source: Any) -> inspect.Signature:
    """Return the signature of a change, with `form` read from form fields or from JSON."""
    # Annotations are texts (`from __future__`), which only the module of `change` can resolve.
    hints = get_type_hints(change, include_extras=True)
    signature = inspect.signature(change)
    parameters = [
        each.replace(annotation=Annotated[hints[name], source] if name == "form" else hints[name])
        for name, each in signature.parameters.items()
    ]
    return signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)


def _with_signature(change: Callable[..., Any], signature: inspect.Signature) -> Callable[..., Any]:
    def as_api(**given: Any) -> Any:
        return change(**given)

    as_api.__signature__ = signature  # type: ignore[attr-defined]
    return as_api
