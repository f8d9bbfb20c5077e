"""Errors in one form: a page for people, `{error, message, next, field}` for programs."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException

from teia.errors import ConfigError, IndexFailure, QueryError, StoreError, TeiaError, UsageError
from teia.lib.message import Message, message_code
from teia.web.background.cache import NotReady
from teia.web.background.lab.runs import UnknownRun
from teia.web.server.auth import ANONYMOUS, Refused, Visitor, visitor_of
from teia.web.server.installation import Busy, ClosedCopies, UnknownCollection, UnknownPage, installation_of
from teia.web.server.json_routes import API, RedirectTo
from teia.web.server.templates import Renderer, link

logger = logging.getLogger(__name__)

NOT_READY, NOT_READY_RETRY_S = "not_ready", 2
"""Reload interval of a page whose data is still being computed."""

# The first match counts, so subclasses come before their base classes.
STATUS: tuple[tuple[type[TeiaError], int], ...] = (
    (UnknownCollection, 404),
    (UnknownRun, 404),
    (ClosedCopies, 403),
    (NotReady, 503),
    (QueryError, 400),
    (ConfigError, 400),
    (UsageError, 400),
    (IndexFailure, 503),
    (StoreError, 404),
)


@dataclass(frozen=True, slots=True)
class Problem:
    """One error. `next` is a suggestion; `field` the form field it concerns.

    `retry_after_s` is the number of seconds after which a retry may succeed.
    """

    error: str
    message: str
    next: str = ""
    field: str = ""
    status: int = 500
    retry_after_s: int = 0


_VALIDATION = {
    "missing": message_code("Field required"),
    "int_parsing": message_code("Input should be a valid integer{more}"),
    "float_parsing": message_code("Input should be a valid number{more}"),
    "bool_parsing": message_code("Input should be a valid boolean{more}"),
    "greater_than_equal": message_code("Input should be greater than or equal to {ge}"),
    "less_than_equal": message_code("Input should be less than or equal to {le}"),
    "enum": message_code("Input should be {expected}"),
    "literal_error": message_code("Input should be {expected}"),
    "string_too_long": message_code("String should have at most {max_length} characters"),
    "string_too_short": message_code("String should have at least {min_length} characters"),
    "": message_code("String should have at least {min_length} character"),
}
"""Codes of the messages of pydantic's errors, by type. Those of Starlette are the messages themselves."""
_HTTP = (message_code("Not Found"), message_code("Method Not Allowed"))


def install(app: FastAPI, renderer: Renderer) -> None:
    """Turn every exception of a route into a `Problem` response."""

    async def respond(request: Request, problem: Problem) -> Response:
        if request.url.path.startswith(API):
            shown = {"error": problem.error, "message": problem.message, "next": problem.next}
            retry_after_s = NOT_READY_RETRY_S if problem.error == NOT_READY else problem.retry_after_s
            headers = {"retry-after": str(retry_after_s)} if retry_after_s else None
            return JSONResponse(shown | ({"field": problem.field} if problem.field else {}), problem.status, headers)
        # A browser is sent to the sign-in page and back. A form's POST could not be repeated after that.
        if problem.status == 401 and request.method == "GET":
            return RedirectResponse(link("/login", to=request.url.path), 303)
        # The page of an error also has the user's language and menu.
        visitor = await _find_visitor(request)
        page = await run_in_threadpool(renderer.response, request, visitor, "problem.html", problem, problem.status)
        if problem.error == NOT_READY:
            page.headers["retry-after"] = page.headers["refresh"] = str(NOT_READY_RETRY_S)
        elif problem.retry_after_s:
            page.headers["retry-after"] = str(problem.retry_after_s)
        return page

    @app.exception_handler(TeiaError)
    async def handle_teia_error(request: Request, error: TeiaError) -> Response:
        if isinstance(error, Refused):
            refused = Problem(
                "refused", error.message, error.next_step, status=error.status, retry_after_s=error.retry_after_s
            )
            return await respond(request, refused)
        if isinstance(error, Busy):
            return await respond(request, Problem("busy", error.message, status=503, retry_after_s=error.retry_after_s))
        if isinstance(error, UnknownPage) and not request.url.path.startswith(API):
            return RedirectResponse(error.to, 303)
        status = next((status for kind, status in STATUS if isinstance(error, kind)), 500)
        field = str(getattr(error, "field", ""))
        return await respond(request, Problem(_error_code(error), error.message, field=field, status=status))

    @app.exception_handler(RedirectTo)
    async def handle_redirect(request: Request, found: RedirectTo) -> Response:
        prefix = API if request.url.path.startswith(API) else ""
        return RedirectResponse(prefix + found.to, 303)

    @app.exception_handler(RequestValidationError)
    async def handle_invalid_values(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        field = str(first["loc"][-1]) if first["loc"] else ""
        message = Message("{field}: {why}", field=field, why=_validation_message(first))
        return await respond(request, Problem("bad_value", message, field=field, status=400))

    @app.exception_handler(HTTPException)
    async def handle_http_error(request: Request, error: HTTPException) -> Response:
        return await respond(request, Problem("http", str(error.detail), status=error.status_code))

    @app.exception_handler(Exception)
    async def handle_unexpected(request: Request, error: Exception) -> Response:
        # The response must not reveal internals; its number leads to the traceback in the log.
        event = secrets.token_hex(4)
        logger.error("event %s: %s %s", event, request.method, request.url.path, exc_info=error)
        message = Message("internal error (event {event}); the crawl is not affected", event=event)
        return await respond(request, Problem("internal", message))


async def _find_visitor(request: Request) -> Visitor:
    try:
        return await visitor_of(request, installation_of(request))
    except TeiaError:
        return ANONYMOUS


def _error_code(error: TeiaError) -> str:
    """Return the error code of an exception: `UnknownCollection` is `unknown_collection`."""
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in error.name).lstrip("_")


def _validation_message(error: Mapping[str, Any]) -> str:
    """Return the message of an error of pydantic; one of an unknown kind stays as it is."""
    code, text = _VALIDATION.get(error["type"], ""), str(error["msg"])
    fixed = code.removesuffix("{more}")
    more = text.removeprefix(fixed) if code != fixed else ""
    message = Message(code, more=more, **error.get("ctx", {}))
    return message if message == text else text
