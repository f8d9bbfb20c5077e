"""API page: every route with a curl command to paste into a terminal, made from the OpenAPI document."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote, urlencode

from fastapi import FastAPI, Request

from teia.errors import TeiaError
from teia.urls import from_user, host_of
from teia.views.runs import recorded_runs
from teia.web.access.roles import Role
from teia.web.server.installation import Installation
from teia.web.server.json_routes import API, InstallationDep, PageRoutes, RouteAccess, VisitorDep

NO_SITE = "https://example.org/"


@dataclass(frozen=True, slots=True)
class ApiRoute:
    """One route: the role and the token scope it needs, its summary, and a curl command."""

    method: str
    path: str
    role: str
    scope: str
    summary: str
    curl: str


@dataclass(frozen=True, slots=True)
class ApiView:
    """Routes that the client may use, sorted by address; `document` is the address of the OpenAPI document."""

    routes: list[ApiRoute]
    others: int
    document: str


def add_routes(pages: PageRoutes) -> None:
    pages.page("/api", "api.html", Role.PUBLIC)(api)


def api(request: Request, installation: InstallationDep, visitor: VisitorDep) -> ApiView:
    """List the routes of the API, each with a command to try it."""
    app = cast("FastAPI", request.app)
    routes: dict[tuple[str, str], RouteAccess] = {(route.method, route.path): route for route in app.state.access_table}
    document, examples = app.openapi(), _examples(installation)
    base = f"{request.url.scheme}://{request.url.netloc}"
    found, others = [], 0
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            route = routes[method.upper(), path]
            role = route.role
            if visitor.may(role, route.scope):
                line = _curl(base, method.upper(), path, operation, document, examples, needs_token=role > Role.PUBLIC)
                summary, scope = operation.get("summary", ""), route.scope or ""
                found.append(ApiRoute(method.upper(), path, role.word, scope, summary, line))
            else:
                others += 1
    return ApiView(sorted(found, key=lambda each: (each.path, each.method)), others, f"{API}/openapi.json")


def _examples(installation: Installation) -> dict[str, str]:
    """Return existing values for the parameters of addresses."""
    names = installation.names()
    seed = NO_SITE
    if names:
        try:
            seed = from_user(installation.config(names[0]).collection.seeds[0]) or NO_SITE  # stored as typed
        except (TeiaError, IndexError, OSError):
            seed = NO_SITE
    known = {"collection": names[0] if names else "NAME", "host": host_of(seed), "url": seed}
    known |= {"node": installation.cluster.view().here, "name": "outcomes", "q": "SELECT count(*) FROM pages"}
    crawls = recorded_runs(installation.root, names[0], 1) if names else []
    known["run"] = str(crawls[0].number) if crawls else "1"
    runs = installation.lab.runs()
    run = next((each for each in runs if each.files), runs[0] if runs else None)
    if run is not None:
        known |= {"number": str(run.number), "file": run.files[0] if run.files else "FILE"}
    return known


def _curl(
    base: str,
    method: str,
    path: str,
    operation: Mapping[str, Any],
    document: Mapping[str, Any],
    examples: Mapping[str, str],
    *,
    needs_token: bool,
) -> str:
    """Return a command that requests a route with its required parameters only."""
    needed = [each for each in operation.get("parameters", ()) if each.get("required")]
    address = path
    for each in needed:
        if each["in"] == "path":
            value = examples.get(each["name"], each["name"].upper())
            address = address.replace("{" + each["name"] + "}", quote(value, safe=":"))
    query = {each["name"]: examples.get(each["name"], each["name"].upper()) for each in needed if each["in"] == "query"}
    address += f"?{urlencode(query)}" if query else ""
    words = ["curl"]
    if needs_token:
        # In double quotes, so that the shell inserts $TOKEN.
        words += ["-H", '"Authorization: Bearer $TOKEN"']
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if body is not None:
        sent = _example(body["schema"], document["components"]["schemas"], examples)
        words += ["-H", "'Content-Type: application/json'", "-d", shlex.quote(json.dumps(sent, ensure_ascii=False))]
    elif method != "GET":
        words += ["-X", method]
    return " ".join([*words, shlex.quote(base + address)])


def _example(schema: Mapping[str, Any], known: Mapping[str, Any], examples: Mapping[str, str]) -> Any:
    """Return the smallest valid body: the required fields, the first choice of each."""
    if "$ref" in schema:
        schema = known[schema["$ref"].rpartition("/")[2]]
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    if schema.get("type") == "object":
        needed = schema.get("required", ())
        return {name: _field(name, each, known, examples) for name, each in _fields(schema) if name in needed}
    if "anyOf" in schema:
        return _example(schema["anyOf"][0], known, examples)
    simple: dict[str, Any] = {"array": [], "integer": schema.get("minimum", 1), "number": 1, "boolean": False}
    return simple.get(str(schema.get("type")), "TEXT")


def _fields(schema: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    return list(schema.get("properties", {}).items())


def _field(name: str, schema: Mapping[str, Any], known: Mapping[str, Any], examples: Mapping[str, str]) -> Any:
    found = _example(schema, known, examples)
    if found != "TEXT":
        return found
    # `name` and `q` are examples of a report and of SQL, and mean other things in a body.
    return examples[name] if name in examples and name not in {"name", "q"} else name.upper()
