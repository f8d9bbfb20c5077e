"""A page and its JSON route from one function.

    @pages.page("/c/{collection}/hosts", "hosts.html", Role.VIEWER)
    def hosts(installation: InstallationDep, collection: str, state: str = "") -> HostsView: ...

makes `GET /c/{collection}/hosts`, the record rendered by the template, and `GET /api/v1/c/{collection}/hosts`, the same
record as JSON. Both need the same role. A route without a role cannot be made, and the authorisation test checks the
table of all routes with their roles (`PageRoutes.access_table`). The first line of the function's docstring becomes the
summary of the API's documentation.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_type_hints

from fastapi import APIRouter, Body, Depends, Form, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from teia.errors import TeiaError
from teia.lib.csvtext import csv_text
from teia.web.access.roles import Role, TokenScope, scope_of
from teia.web.server.auth import Visitor, require, visitor_of
from teia.web.server.installation import Installation, installation_of
from teia.web.server.templates import Renderer, with_notice

API = "/api/v1"
Make = TypeVar("Make", bound=Callable[..., Any])

VisitorDep = Annotated[Visitor, Depends(visitor_of)]


def visible_installation(
    installation: Annotated[Installation, Depends(installation_of)], visitor: VisitorDep
) -> Installation:
    """Return the installation as the sender of the request may see it."""
    return installation if visitor.may(Role.VIEWER) else installation.public_view()


InstallationDep = Annotated[Installation, Depends(visible_installation)]


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


@dataclass(frozen=True, slots=True)
class FormAgain:
    """A form to show again, with its errors or with a preview."""

    view: Any
    status: int = 400


@dataclass(frozen=True, slots=True)
class FormProblem:
    """Error of a form: the sentence, and the field it concerns; empty if it concerns the whole form."""

    message: str = ""
    field: str = ""

    def at(self, field: str) -> str:
        """Return the error beside a field; empty if there is none."""
        return self.message if self.field == field else ""

    @property
    def of_form(self) -> str:
        """Return the error that belongs to no field; empty if there is none."""
        return "" if self.field else self.message


NO_PROBLEM = FormProblem()
ShowAgain = Callable[..., Any]
"""Function that returns the view of a form with a `FormProblem`, from the problem and the parameters of its change."""


class PageRoutes:
    """Collector of routes; `router` has them all."""

    def __init__(self, renderer: Renderer) -> None:
        self.router = APIRouter()
        self.access_table: list[RouteAccess] = []
        self.render = renderer.response

    def page(self, path: str, template: str, role: Role, *, with_json: bool = True) -> Callable[[Make], Make]:
        """Register the function that makes a page's record."""

        def register(make: Make) -> Make:
            view_of = Annotated[Any, Depends(make)]

            def as_page(request: Request, visitor: VisitorDep, view: Any) -> HTMLResponse:
                return self.render(request, visitor, template, view)

            def as_json(view: Any) -> Any:
                return view

            for endpoint in (as_page, as_json):  # FastAPI reads these annotations: the view comes from `make`
                endpoint.__annotations__ |= {"request": Request, "visitor": VisitorDep, "view": view_of}
            self.add("GET", path, role, as_page, response_class=HTMLResponse, include_in_schema=False)
            if with_json:
                self.add("GET", API + path, role, as_json, **_documentation(make))
            return make

        return register

    def action(
        self, path: str, role: Role, template: str = "", again: ShowAgain | None = None
    ) -> Callable[[Make], Make]:
        """Register a change: a form's POST (see `form`), and the API's, which returns the function's result."""

        def register(change: Make) -> Make:
            self.form(path, role, template, again)(change)
            self.api(path, role)(change)
            return change

        return register

    def form(self, path: str, role: Role, template: str = "", again: ShowAgain | None = None) -> Callable[[Make], Make]:
        """Register a form's POST. The function's parameter `form` is a pydantic model of the form's fields.

        After an `ActionResult` the browser is redirected to its address, which shows the sentence. The template shows
        any other result: a record that is shown once, such as a new token, or a `FormAgain`. The function then needs
        the parameter `visitor`. With `again`, an error is shown on the form itself, with what was typed.
        """

        def register(change: Make) -> Make:
            takes_request = "request" in inspect.signature(change).parameters

            def as_form(**given: Any) -> Response:
                request: Request = given["request"] if takes_request else given.pop("request")
                try:
                    done = change(**given)
                except TeiaError as error:
                    if again is None:
                        raise
                    problem = FormProblem(error.message, getattr(error, "field", ""))
                    done = FormAgain(again(problem, **given), getattr(error, "status", 400))
                if isinstance(done, Response):
                    return done
                if isinstance(done, ActionResult):
                    # 303: the browser continues with GET, and a reload sends the form no second time.
                    return with_notice(RedirectResponse(done.to, 303), done.message)
                view, status = (done.view, done.status) if isinstance(done, FormAgain) else (done, 200)
                return self.render(request, given["visitor"], template, view, status)

            # FastAPI reads the parameters from the signature and passes them as keywords.
            request_parameter = inspect.Parameter("request", inspect.Parameter.KEYWORD_ONLY, annotation=Request)
            more = () if takes_request else (request_parameter,)
            as_form.__signature__ = _signature_from(change, Form(), *more)  # type: ignore[attr-defined]
            self.add("POST", path, role, as_form, include_in_schema=False, response_class=Response)
            return change

        return register

    def api(self, path: str, role: Role, name: str = "") -> Callable[[Make], Make]:
        """Register a POST of the API; the function's parameter `form` is read from JSON."""

        def register(change: Make) -> Make:
            def as_api(**given: Any) -> Any:
                return change(**given)

            as_api.__signature__ = _signature_from(change, Body())  # type: ignore[attr-defined]
            self.add("POST", API + path, role, as_api, **_documentation(change, name))
            return change

        return register

    def json(self, path: str, role: Role) -> Callable[[Make], Make]:
        """Register a GET of the API that no page shows; the function returns its record."""

        def register(make: Make) -> Make:
            self.add("GET", API + path, role, make, **_documentation(make))
            return make

        return register

    def add(self, method: str, path: str, role: Role, endpoint: Callable[..., Any], **how: Any) -> None:
        """Add one route with its role, for routes that are neither a page nor a change."""
        scope = scope_of(method, path.removeprefix(API) or "/", role)
        self.access_table.append(RouteAccess(method, path, role, scope))
        # The only place where routes are added, so none is without this check.
        route = Depends(require(role, scope))
        how.setdefault("summary", (endpoint.__doc__ or "").partition("\n")[0] or None)
        self.router.add_api_route(path, endpoint, dependencies=[route], **{"methods": [method], **how})


def csv_response(columns: Iterable[Any], rows: Iterable[Iterable[Any]]) -> PlainTextResponse:
    """Return a table as a CSV file."""
    attachment = {"content-disposition": "attachment"}
    return PlainTextResponse(csv_text(columns, rows), media_type="text/csv", headers=attachment)


def _documentation(function: Callable[..., Any], name: str = "") -> dict[str, Any]:
    """Return the documentation of a route: the record it returns, its summary, and its name."""
    return {
        "response_model": get_type_hints(function)["return"],
        "summary": (function.__doc__ or "").partition("\n")[0],
        "operation_id": name or f"{function.__module__.rpartition('.')[2]}_{function.__name__}",
    }


def _signature_from(change: Callable[..., Any], source: Any, *more: inspect.Parameter) -> inspect.Signature:
    """Return the signature of a change, with `form` read from form fields or from JSON, and more parameters."""
    # Annotations are texts (`from __future__`), which only the module of `change` can resolve.
    hints = get_type_hints(change, include_extras=True)
    parameters = [
        each.replace(
            annotation=Annotated[hints[name], source] if name == "form" else hints[name],
            kind=inspect.Parameter.KEYWORD_ONLY,
        )
        for name, each in inspect.signature(change).parameters.items()
    ]
    return inspect.Signature([*more, *parameters])
