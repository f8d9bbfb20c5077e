"""`teia search`: full-text search of a collection or a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teia.cli.options import AsJson, Ca, Collection, Key, open_collection
from teia.cli.read.run_search import MAX_RESULTS, answer_here_or_there, make_request, print_answer
from teia.clock import Clock, WallClock
from teia.errors import UsageError

if TYPE_CHECKING:
    from teia.cluster.search.ask_nodes import ClusterSearch
    from teia.indexer.past_search import PastSearch

Words = Annotated[str, typer.Argument(metavar="QUERY", help="Query: words and operators; see docs/query-language.md.")]
Folder = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="Data folder of the installation.")]
Nats = Annotated[
    list[str] | None, typer.Option("--nats", metavar="URL", help="NATS server of a cluster, instead of --data.")
]
Number = Annotated[int, typer.Option("-n", min=1, max=MAX_RESULTS, metavar="N", help="Number of results.")]
Offset = Annotated[int, typer.Option("--offset", min=0, metavar="N", help="Number of results to skip.")]
Explain = Annotated[bool, typer.Option("--explain", help="Show how each score is computed.")]
Facets = Annotated[bool, typer.Option("--facets", help="Count results by host, language, type and year.")]
Reads = Annotated[
    str | None,
    typer.Option("--lang", "--language", metavar="LANG", help="Prefer pages in this language, such as `pt` or `en`."),
]
Verbatim = Annotated[
    bool, typer.Option("--verbatim", help="Search for the words as typed, even if they look misspelt.")
]
AsOf = Annotated[
    str | None,
    typer.Option("--as-of", metavar="DATE", help="Search the captures that were current then: a day, or a time (UTC)."),
]
Expand = Annotated[
    bool | None,
    typer.Option("--expand/--no-expand", help="Expand the query with words that the best results have in common."),
]


def search(
    query: Words,
    data: Folder = None,
    collection: Collection = None,
    n: Number = 10,
    offset: Offset = 0,
    explain: Explain = False,
    facets: Facets = False,
    language: Reads = None,
    expand: Expand = None,
    verbatim: Verbatim = False,
    as_of: AsOf = None,
    nats: Nats = None,
    key: Key = None,
    ca: Ca = None,
    as_json: AsJson = False,
) -> None:
    """Search the pages of a collection, also during a crawl; with --nats or a cluster's folder, on all its nodes.

    Examples: teia search 'orçamento 2026' --data archive · teia search '+lei -projeto site:camara.test' --data archive
    """
    request = make_request(
        query,
        n=n,
        offset=offset,
        collection=collection,
        explain=explain,
        facets=facets,
        language=language,
        expand=expand,
        verbatim=verbatim,
        json=as_json,
    )
    if as_of is None and not nats and data is not None:
        print_answer(answer_here_or_there(data, request))
        return
    from teia.indexer.answer_request import answer_request

    clock = WallClock()
    if as_of is not None:
        opened: ClusterSearch | PastSearch = _open_past(data, collection, as_of, clock)
    else:
        opened = _open_cluster(data, collection, nats or [], key, ca, clock)
    with opened:
        answer = answer_request(opened, request, clock)
    print_answer(answer)


def _open_cluster(
    data: Path | None, collection: str | None, nats: list[str], key: Path | None, ca: Path | None, clock: Clock
) -> ClusterSearch:
    """Open the search of a cluster by the addresses of its NATS servers."""
    if not nats:
        raise UsageError("nothing to search; use --data DIR, or --nats URL of a cluster")
    if data is not None:
        raise UsageError("--nats searches a cluster and --data a folder; use only one of them")
    from teia.cluster.search.ask_nodes import ClusterSearch

    return ClusterSearch(nats, key, collection or "main", clock, ca=ca)


def _open_past(data: Path | None, collection: str | None, as_of: str, clock: Clock) -> PastSearch:
    """Open the search of a folder as it was at a moment."""
    from teia.indexer.past_search import PastSearch, parse_moment

    if data is None or (data / "up.json").exists():
        raise UsageError("--as-of searches a collection of one machine; use it with --data DIR")
    root, name = open_collection(data, collection)
    from teia.cluster.search.processes import read_librarian_settings

    if read_librarian_settings(root, name) is not None:
        raise UsageError("a cluster cannot be searched as of a date")
    return PastSearch(root, name, parse_moment(as_of), clock)
