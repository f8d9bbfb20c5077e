"""Whatever the OpenAPI document allows, and more, is asked: nothing ends in a 5xx, and answers are as documented."""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.generation.modes import GenerationMode
from schemathesis.specs.openapi.checks import response_schema_conformance

from teia.web.access.roles import Role

from .conftest import Web


@pytest.mark.heavy
@pytest.mark.timeout(300)
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_the_api_answers_whatever_it_is_asked(web: Web, mode: GenerationMode) -> None:
    """Valid by the document, and not."""
    headers = {**web.token(Role.ADMIN), "host": "localhost"}
    schema = schemathesis.openapi.from_asgi("/api/v1/openapi.json", web.app, headers={"host": "localhost"})
    asked: set[str] = set()
    for operation in schema.get_all_operations():
        found = operation.ok()

        @settings(max_examples=10, suppress_health_check=list(HealthCheck), database=None)
        @given(case=found.as_strategy(generation_mode=mode))
        def ask(case: schemathesis.Case) -> None:
            case.call_and_validate(headers=headers, checks=[not_a_server_error, response_schema_conformance])
            asked.add(found.path)  # noqa: B023  # called before the loop goes on

        try:
            ask()
        except Exception as error:  # what schemathesis raises where nothing invalid can be said
            if "Unsatisfiable" not in type(error).__name__:
                raise
    assert "/api/v1/search" in asked


def test_every_page_has_its_twin_in_the_document(web: Web) -> None:
    document = web.client().get("/api/v1/openapi.json").json()
    assert "/api/v1/search" in document["paths"]
    assert "/api/v1/c/{collection}/page" in document["paths"]
    client = web.client(Role.VIEWER)
    assert client.get("/api/v1/c/main").json()["collection"] == "main"
    assert client.get("/api/v1/c/main/reports").headers["location"] == "/api/v1/c/main/reports/outcomes"
    hit = document["components"]["schemas"]["HitView"]["properties"]
    assert {"rank", "url", "snippet", "fresh_probability"} <= hit.keys()
