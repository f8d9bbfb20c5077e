"""A search as `teia search` requests it: a request and an answer that can be sent as JSON.

The command answers its request itself, or has it answered by the server of its data folder, which has the index open
(web/local_socket.py). Both call `answer_request`, so the output does not tell which of them did.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from teia.clock import Clock
from teia.search.query.query_language import environment_languages
from teia.search.serve.searcher import SearchOptions
from teia.search.show.results import Results
from teia.search.show.text_blocks import blocks_of

Answer = dict[str, Any]


class AnswersQueries(Protocol):
    """A collection opened for search, here or on a cluster, now or in the past."""

    def search(self, text: str, n: int, offset: int, options: SearchOptions) -> Results:
        """Answer a query."""


def answer_request(opened: AnswersQueries, request: Mapping[str, Any], clock: Clock) -> Answer:
    """Return the JSON object of an answer if the request wants that, else its warnings and blocks of text."""
    options = SearchOptions(
        explain=request["explain"],
        facets=request["facets"],
        language=request["language"],
        expand=request["expand"],
        reader_languages=environment_languages(request["locale"]),
        correct=not request["verbatim"],
    )
    results = opened.search(request["query"], request["n"], request["offset"], options)
    if request["json"]:
        return {"json": results.as_json()}
    return {"warnings": list(results.warnings), "blocks": blocks_of(results, clock.now_s())}
