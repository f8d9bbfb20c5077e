"""`teia search`: full-text search of a collection or a cluster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from teia.cli.options import AsJson, Ca, Collection, Key, open_collection
from teia.cli.output import print_grid, print_json, printable, progress_console, result_console
from teia.clock import Clock, WallClock
from teia.errors import UsageError
from teia.indexer.open_search import CollectionSearch
from teia.lib.language_names import language_name
from teia.search.query.query_language import environment_languages
from teia.search.serve.searcher import MAX_AT_ONCE, SearchOptions
from teia.search.show.results import Explanation, Hit, Results
from teia.search.show.snippets import Snippet

if TYPE_CHECKING:
    from teia.cluster.search.open import OpenedSearch
    from teia.indexer.past_search import PastSearch

MARK = "bold yellow"
INDENT = "    "
AGES = ((86_400.0 * 365, "year"), (86_400.0, "day"), (3_600.0, "hour"), (60.0, "minute"))

Words = Annotated[str, typer.Argument(metavar="QUERY", help="Query: words and operators; see docs/query-language.md.")]
Folder = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="Data folder of the installation.")]
Nats = Annotated[
    list[str] | None, typer.Option("--nats", metavar="URL", help="NATS server of a cluster, instead of --data.")
]
Number = Annotated[int, typer.Option("-n", min=1, max=MAX_AT_ONCE, metavar="N", help="Number of results.")]
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
    reader_languages = environment_languages(os.environ)
    options = SearchOptions(
        explain=explain,
        facets=facets,
        language=language,
        expand=expand,
        reader_languages=reader_languages,
        correct=not verbatim,
    )
    clock = WallClock()
    if as_of is not None:
        opened: OpenedSearch | PastSearch = _open_past(data, collection, as_of, clock)
    else:
        opened = _open_search(data, collection, nats or [], key, ca, clock)
    with opened:
        results = opened.search(query, n, offset, options)
    if as_json:
        print_json(results.as_json())
    else:
        _show(results, clock)


def _open_search(
    data: Path | None,
    collection: str | None,
    nats: list[str],
    key: Path | None,
    ca: Path | None,
    clock: Clock,
) -> OpenedSearch:
    """Open the search of a folder, of a cluster that `teia cluster up` started in one, or of a cluster by NATS."""
    if nats:
        from teia.cluster.search.ask_nodes import ClusterSearch

        if data is not None:
            raise UsageError("--nats searches a cluster and --data a folder; use only one of them")
        return ClusterSearch(nats, key, collection or "main", clock, ca=ca)
    if data is None:
        raise UsageError("nothing to search; use --data DIR, or --nats URL of a cluster")
    if (data / "up.json").exists():
        from teia.cluster.local import read_local
        from teia.cluster.search.ask_nodes import ClusterSearch

        local = read_local(data)
        return ClusterSearch(local.urls, Path(local.key), collection or local.collection, clock)
    root, name = open_collection(data, collection)
    # A node of a cluster wrote this file; while the node runs, all nodes are searched.
    if (root.path / name / "search.json").exists():
        from teia.cluster.search.open import open_search

        return open_search(root, [name], clock)
    return CollectionSearch(root, [name], clock)


def _open_past(data: Path | None, collection: str | None, as_of: str, clock: Clock) -> PastSearch:
    """Open the search of a folder as it was at a moment."""
    from teia.indexer.past_search import PastSearch, parse_moment

    if data is None or (data / "up.json").exists():
        raise UsageError("--as-of searches a collection of one machine; use it with --data DIR")
    root, name = open_collection(data, collection)
    return PastSearch(root, name, parse_moment(as_of), clock)


def _show(results: Results, clock: Clock) -> None:
    # To standard error: a pipe gets results alone.
    for warning in results.warnings:
        progress_console().print(printable(warning), markup=False, soft_wrap=True)
    console = result_console()
    console.print(_summary(results), style="dim", markup=False, soft_wrap=True)
    if results.corrected:
        console.print(
            f"Showing results for {printable(results.corrected)}. To search for {printable(results.query)}, use"
            " --verbatim.",
            markup=False,
            soft_wrap=True,
        )
    for hit in results.hits:
        console.print()
        _show_hit(console, hit, clock)
    for name, counts in results.facets.items():
        if counts:
            rows = [(_facet_value(name, value), f"{n:,}") for value, n in counts.items()]
            print_grid((name, "pages"), rows, (False, True))
    for line in _suggestions(results):
        console.print(f"\n{line}", markup=False, soft_wrap=True)


def _facet_value(name: str, value: str) -> str:
    """Return the value of a facet; a language by its name, and the code that `lang:` takes."""
    known = language_name(value) if name == "lang" else value
    return "unknown" if not value else known if known == value else f"{known} ({value})"


def _summary(results: Results) -> str:
    pages = "1 page" if results.total == 1 else f"{results.total:,} pages"
    at_least = "at least " if results.is_partial else ""
    parts = [f"{at_least}{pages}", f"{results.took_ms:.0f} ms"]
    if results.expansion.words:
        parts.append(f"query expanded with: {', '.join(map(printable, results.expansion.words))}")
    return " · ".join(parts)


def _show_hit(console: Console, hit: Hit, clock: Clock) -> None:
    number = f"{hit.rank}".rjust(3)
    console.print(Text(f"{number} ", style="dim").append_text(_highlight(hit.title, "bold")), soft_wrap=True)
    console.print(INDENT + printable(hit.url), style="cyan", markup=False, soft_wrap=True)
    if hit.snippet:
        _print_indented(console, _highlight(hit.snippet))
    console.print(INDENT + " · ".join(_details(hit, clock)), style="dim", markup=False, soft_wrap=True)
    if hit.explanation is not None:
        _show_explanation(hit.score, hit.explanation)


def _print_indented(console: Console, text: Text) -> None:
    """Print a paragraph, folded to the width of a terminal; elsewhere on one line."""
    width = max(20, console.width - len(INDENT)) if console.is_terminal else max(1, len(text))
    for line in text.wrap(console, width):
        console.print(Text(INDENT).append_text(line), soft_wrap=True)


def _highlight(snippet: Snippet, style: str = "") -> Text:
    text = Text(style=style)
    for part, is_marked in snippet.parts:
        text.append(printable(part), MARK if is_marked else None)
    return text


def _details(hit: Hit, clock: Clock) -> list[str]:
    found = [printable(each) for each in (hit.lang, hit.type) if each]
    if hit.last_visit_s:
        found.append(f"last visit {age(clock.now_s() - hit.last_visit_s)}")
    if hit.fresh_probability is not None:
        found.append(f"{hit.fresh_probability:.0%} likely current")
    if hit.backlinks:
        found.append(f"linked from {hit.backlinks:,} pages")
    if hit.alike:
        found.append(f"{hit.alike} more with the same text")
    return found


def age(seconds: float) -> str:
    for unit_s, name in AGES:
        count = int(seconds // unit_s)
        if count >= 1:
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return "just now"


def _show_explanation(score: float, why: Explanation) -> None:
    rows = [
        (
            each.word,
            each.field,
            each.term,
            f"{each.boost:.2f}",
            f"{each.idf:.2f}",
            "" if each.pages is None else f"{each.pages:,}",
            f"{each.of:,}",
            f"{each.score:.3f}",
        )
        for each in why.components
    ]
    names = ("word", "field", "term", "weight", "idf", "pages", "of", "adds")
    print_grid(names, rows, (False, False, False, True, True, True, True, True))
    factors = f"authority {why.authority:.3f} x news {why.news:.3f} x readable {why.readable:.3f}"
    line = (
        f"{INDENT}(text {why.text:.3f} x {factors} + semantics {why.semantics:.3f}) x passages {why.passages:.3f}"
        f" = {score:.3f}"
    )
    result_console().print(line, style="dim", markup=False, soft_wrap=True)


def _suggestions(results: Results) -> list[str]:
    lines = [f"No page contains {', '.join(printable(word) for word in results.missing)}."] if results.missing else []
    lines += [
        f"Did you mean {printable(each.instead)} ({each.pages:,} pages)?  {printable(each.query)}"
        for each in (() if results.corrected else results.suggestions)
    ]
    if results.expansion.offered and results.total:
        lines.append("--expand adds words that the best results have in common.")
    return lines
