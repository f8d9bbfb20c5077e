"""`teia audit politeness`: the fetch log replayed, looking for requests that came too early or should not have come.

The log is what every request did, by the calendar, with the rest that courtesy demanded before it. A request is early
if it began sooner than that after the last answer of its host had ended, or sooner than the collection's delay after
the last answer of its address. A page is unasked for if no robots.txt of its host had been fetched before it. The audit
trusts no counter of the crawler; the lab's own log is the second opinion (tests/system).
"""

from __future__ import annotations

from dataclasses import dataclass

from teia.config import CourtesySettings
from teia.store.sql import FetchLog

TOLERANCE_S = 0.002
"""The calendar may be stepped a little between two readings; rests are kept by a clock that is not."""

MAX_DETAILS = 20

IMPORTED_RUN = -1
"""The `run` of rows that `teia import log` brought: requests of somebody else, for whom this audit does not speak."""


@dataclass(frozen=True, slots=True)
class PolitenessAudit:
    """How many requests were looked at, how many broke a rule, and the first of those in words."""

    checked: int
    violations: int
    details: tuple[str, ...]


def audit_politeness(log: FetchLog, courtesy: CourtesySettings) -> PolitenessAudit:
    """Check every request of a fetch log."""
    checked = int(log.query(f"SELECT count(*) FROM {_OURS}").rows[0][0])  # noqa: S608  # our own text
    complaints: list[str] = []
    violations = 0
    for what, sql in _questions(courtesy):
        (number,) = log.query(f"SELECT count(*) FROM ({sql})").rows[0]  # noqa: S608  # our own text
        violations += int(number)
        if number:
            rows = log.query(f"{sql} LIMIT {MAX_DETAILS}").rows
            complaints += [f"{what}: {url} at {started}{f' ({note})' if note else ''}" for url, started, note in rows]
    return PolitenessAudit(checked, violations, tuple(complaints[:MAX_DETAILS]))


def _questions(courtesy: CourtesySettings) -> list[tuple[str, str]]:
    """What is asked of the log; each question selects (url, started, note) of the requests that broke a rule."""
    questions = []
    if courtesy.per_host == 1:
        questions.append(("early for its host", _early("host", "rest_s")))
        questions.append(("early for its address", _early("address", str(float(courtesy.delay_s)))))
    if courtesy.robots:
        questions.append(("before robots.txt", _UNASKED))
    return questions


def _early(place: str, rest: str) -> str:
    gap = "date_diff('microsecond', before, started) / 1e6"
    return f"""
        SELECT url, started, round({gap}, 3)::VARCHAR || ' s of ' || round({rest}, 3)::VARCHAR || ' s' AS note
        FROM (SELECT *, max(ended) OVER (PARTITION BY {place} ORDER BY started, ended
                                         ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
              FROM {_OURS} WHERE {place} IS NOT NULL)
        WHERE before IS NOT NULL AND {rest} IS NOT NULL AND {gap} < {rest} - {TOLERANCE_S}
        ORDER BY started
    """  # noqa: S608  # our own text


_OURS = f"(SELECT * FROM fetches WHERE run IS NULL OR run <> {IMPORTED_RUN})"  # noqa: S608  # our own text

_UNASKED = f"""
    SELECT f.url, f.started, '' AS note
    FROM {_OURS} AS f
    LEFT JOIN (SELECT host, min(started) AS first FROM fetches WHERE kind = 'robots' GROUP BY host) AS r USING (host)
    WHERE f.kind <> 'robots' AND (r.first IS NULL OR r.first > f.started)
    ORDER BY f.started
"""  # noqa: S608  # our own text
