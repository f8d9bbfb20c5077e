"""Results as blocks of text, for a terminal or a pipe; plain JSON, because another process may print them.

    {"line": [[text, style], …]}                      one line
    {"folded": [[text, style], …]}                    a paragraph, indented and folded to the width of a terminal
    {"grid": [names of columns, rows, is numeric]}    a table

Text is as it came from the web: who prints it makes it printable.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from teia.lib.language_names import language_name
from teia.search.show.results import Explanation, Hit, Results
from teia.search.show.snippets import Snippet

Block = dict[str, Any]
Parts = list[tuple[str, str]]

MARK = "bold yellow"
INDENT = "    "
AGES = ((86_400.0 * 365, "year"), (86_400.0, "day"), (3_600.0, "hour"), (60.0, "minute"))
COMPONENTS = ("word", "field", "term", "weight", "idf", "pages", "of", "adds")
COMPONENTS_NUMERIC = (False, False, False, True, True, True, True, True)


def blocks_of(results: Results, now_s: float) -> list[Block]:
    """Return everything that `teia search` prints of an answer, but its warnings."""
    return list(_blocks(results, now_s))


def _blocks(results: Results, now_s: float) -> Iterator[Block]:
    yield _line(_summary(results), "dim")
    if results.corrected:
        yield _line(f"Showing results for {results.corrected}. To search for {results.query}, use --verbatim.")
    for hit in results.hits:
        yield _line("")
        yield from _hit(hit, now_s)
    for name, counts in results.facets.items():
        if counts:
            rows = [(facet_value(name, value), f"{n:,}") for value, n in counts.items()]
            yield {"grid": [(name, "pages"), rows, (False, True)]}
    for line in _suggestions(results):
        yield _line("")
        yield _line(line)


def _line(text: str, style: str = "") -> Block:
    return {"line": [(text, style)]}


def facet_value(name: str, value: str) -> str:
    """Return the value of a facet; a language by its name, and the code that `lang:` takes."""
    known = language_name(value) if name == "lang" else value
    return "unknown" if not value else known if known == value else f"{known} ({value})"


def _summary(results: Results) -> str:
    pages = "1 page" if results.total == 1 else f"{results.total:,} pages"
    at_least = "at least " if results.is_partial else ""
    parts = [f"{at_least}{pages}", f"{results.took_ms:.0f} ms"]
    if results.expansion.words:
        parts.append(f"query expanded with: {', '.join(results.expansion.words)}")
    return " · ".join(parts)


def _hit(hit: Hit, now_s: float) -> Iterator[Block]:
    yield {"line": [(f"{hit.rank}".rjust(3) + " ", "dim"), *_highlighted(hit.title, "bold")]}
    yield _line(INDENT + hit.url, "cyan")
    if hit.snippet:
        yield {"folded": _highlighted(hit.snippet)}
    yield _line(INDENT + " · ".join(_details(hit, now_s)), "dim")
    if hit.explanation is not None:
        yield from _explanation(hit.score, hit.explanation)


def _highlighted(snippet: Snippet, style: str = "") -> Parts:
    return [(part, MARK if is_marked else style) for part, is_marked in snippet.parts]


def _details(hit: Hit, now_s: float) -> list[str]:
    found = [each for each in (language_name(hit.lang), hit.type) if each]
    if hit.last_visit_s:
        found.append(f"last visit {age(now_s - hit.last_visit_s)}")
    if hit.fresh_probability is not None:
        found.append(f"{hit.fresh_probability:.0%} likely current")
    if hit.backlinks:
        found.append(f"linked from {hit.backlinks:,} page{'s' * (hit.backlinks != 1)}")
    if hit.alike:
        found.append(f"{hit.alike} more with the same text")
    return found


def age(seconds: float) -> str:
    for unit_s, name in AGES:
        count = int(seconds // unit_s)
        if count >= 1:
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return "just now"


def _explanation(score: float, why: Explanation) -> Iterator[Block]:
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
    yield {"grid": [COMPONENTS, rows, COMPONENTS_NUMERIC]}
    factors = f"authority {why.authority:.3f} x news {why.news:.3f} x readable {why.readable:.3f}"
    yield _line(
        f"{INDENT}(text {why.text:.3f} x {factors} + semantics {why.semantics:.3f}) x passages {why.passages:.3f}"
        f" = {score:.3f}",
        "dim",
    )


def _suggestions(results: Results) -> list[str]:
    lines = [f"No page contains {', '.join(results.missing)}."] if results.missing else []
    lines += [
        f"Did you mean {each.instead} ({each.pages:,} pages)?  {each.query}"
        for each in (() if results.corrected else results.suggestions)
    ]
    if results.expansion.offered and results.total:
        lines.append("--expand adds words that the best results have in common.")
    return lines
