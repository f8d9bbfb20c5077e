"""A report: the requests of a crawl by top-level domain and by the ending of the path.

    teia report suffixes --data archive --json

A report is a dataclass. Its plain fields are printed as lines, its tuples of rows as tables, `notes` below them. How a
number is written follows from the name of its field: `share`, `…_bytes` and `…_s`.
"""

from __future__ import annotations

from dataclasses import dataclass

from teia.views.reports.source import Source

SQL = r"""
SELECT regexp_extract(host, '[^.]+$'), regexp_extract(url, '\.([a-z0-9]{1,5})$', 1), count(*), sum(decoded_bytes)
FROM fetches WHERE status BETWEEN 200 AND 299 GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT ?
"""


@dataclass(frozen=True)
class SuffixRow:
    """One domain and one ending; an empty ending is a folder or a name without one."""

    domain: str
    ending: str
    requests: int
    share: float
    total_bytes: int


@dataclass(frozen=True)
class Suffixes:
    """All successful requests, robots.txt among them."""

    requests: int
    rows: tuple[SuffixRow, ...]
    notes: tuple[str, ...] = ("Requests are counted, so a page that was visited twice counts twice.",)


def suffixes(source: Source, top: int) -> Suffixes:
    """Count the rows of the fetch log; docs/formats.md lists its columns."""
    found = source.log.query(SQL.replace("?", str(top))).rows
    total = sum(number for _, _, number, _ in found)
    return Suffixes(total, tuple(SuffixRow(*row[:2], row[2], row[2] / total, int(row[3] or 0)) for row in found))
