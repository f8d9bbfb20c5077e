"""Pages that a browser rendered: their share, what it brought, and what was learnt for each kind of pages."""

from __future__ import annotations

from dataclasses import dataclass

from teia.crawler.compiled_settings import render_signs
from teia.crawler.rendering.kinds import RenderKind, RenderVerdict, decode_kind
from teia.frontier.tables import renderings
from teia.lib.message import Message
from teia.views.reports.source import Source

VERDICTS = {
    RenderVerdict.UNKNOWN: Message("not known yet"),
    RenderVerdict.UNSURE: Message("another trial"),
    RenderVerdict.RENDERED: Message("rendered"),
    RenderVerdict.STATIC: Message("not rendered"),
}


@dataclass(frozen=True, slots=True)
class RenderRow:
    """One kind of pages of one host. `gained` are its rendered pages that had something of their own."""

    host: str
    pattern: str
    verdict: str
    rendered: int
    gained: int
    failed: int
    words: int
    links: int


@dataclass(frozen=True, slots=True)
class RenderReport:
    """Numbers of pages whose text is that of a browser, their share of all, and the kinds of pages.

    `attempts` are all renderings, trials too; `requests` were made by pages, and not for pages.
    """

    mode: str
    pages: int
    rendered_pages: int
    share: float
    attempts: int
    failed: int
    words: int
    links: int
    requests: int
    rows: tuple[RenderRow, ...]
    notes: tuple[str, ...] = (
        Message(
            "Rendered pages: pages whose last capture is searched as its scripts show it. Words: added by rendering,"
            " and so are links. A kind of pages is a URL pattern of a host with one set of scripts; it is rendered if"
            " its trials brought something."
        ),
    )


def rendering(source: Source, top: int = 25) -> RenderReport:
    """Show the share of rendered pages and what it brought, the kinds with most rendered pages first."""
    found = [(host, decode_kind(record)) for cell in source.frontiers for host, record in renderings.all_kinds(cell)]
    rows = [_row(host, kind) for host, kind in found if kind is not None]
    rows.sort(key=lambda row: (-row.rendered, row.host, row.pattern))
    rendered = sum(map(renderings.count_rendered, source.frontiers))
    sql = "SELECT count(DISTINCT url) FILTER (WHERE kind = 'page' AND status BETWEEN 200 AND 299), {} FROM fetches"
    counts = "count(*) FILTER (WHERE kind = 'render'), count(*) FILTER (WHERE detail LIKE '%rendered: %')"
    ((pages, requests, attempts),) = source.log.query(sql.format(counts)).rows
    return RenderReport(
        render_signs(source.config),
        pages,
        rendered,
        rendered / pages if pages else 0.0,
        attempts,
        sum(row.failed for row in rows),
        sum(row.words for row in rows),
        sum(row.links for row in rows),
        requests,
        tuple(rows[:top]),
    )


def _row(host: str, kind: RenderKind) -> RenderRow:
    verdict = VERDICTS[kind.verdict]
    return RenderRow(host, kind.pattern, verdict, kind.rendered, kind.gained, kind.failed, kind.words, kind.links)
