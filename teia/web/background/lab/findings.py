"""Contents of a lab report: digest, rows, charts, warnings, and comparison of reports.

A report is the JSON object that the command printed. It is read from a file, so every field may be missing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from teia.lib.csvtext import csv_text

VARYING = frozenset({"seconds", "report", "date", "files", "out"})
"""Fields that differ between two runs of the same command; the digest leaves them out."""

MEASURES = ("staleness", "staleness_second_half", "staleness_sampled", "visits", "late_p99_s", "age_s")
SIDES = (
    "fresh", "fresh_low", "fresh_high", "bound", "visits_per_day", "requests_per_day", "full_pass_s", "late_pages",
    "unvisited",
)  # fmt: skip
PLANNED = ("pages", "servers", "visits", "visited_pages", "staleness")
MIN_REVISITED = 200
LOOSE = 0.05
"""Gap between the best policy and its bound above which the bound says little about the policy."""

NEAR = 0.05
SHOWN_ROWS = 30
SHOWN_POINTS = 60
COMPARED_ROWS = 300


@dataclass(frozen=True, slots=True)
class ResultWarning:
    """Warning to read before trusting the numbers; `value` or `word` is inserted into its sentence."""

    code: str
    value: float | None = None
    word: str = ""


def digest_of(kind: str, report: Mapping[str, Any]) -> str:
    """Return the digest of a report's numbers; equal runs have equal digests.

    A single experiment brings its own digest.
    """
    if kind == "reproduce":
        own = [str(each.get("digest", "")) for each in experiments(report)]
        if len(own) == 1:
            return own[0]
    return hashlib.sha256(json.dumps(_without_varying(report), sort_keys=True).encode()).hexdigest()


def _without_varying(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_varying(each) for name, each in value.items() if name not in VARYING}
    return [_without_varying(each) for each in value] if isinstance(value, list) else value


def finding_of(kind: str, report: Mapping[str, Any]) -> dict[str, Any]:
    """Summarise a report in a few numbers, for lists of runs."""
    if kind == "simulate":
        rows = policies(report)
        return {"policy": rows[0]["policy"], "staleness": rows[0]["staleness"]} if rows else {}
    if kind == "whatif":
        gain, side = report.get("gain") or {}, report.get("what_if") or report.get("as_is") or {}
        return {"gain": gain.get("mean"), "fresh": (side.get("fresh") or {}).get("mean")}
    if kind == "plan":
        bounds = report.get("bounds") or {}
        return {"staleness": report.get("staleness"), "visits": report.get("visits"), "bound": bounds.get("wp")}
    near, beside = agreement(report)
    return {"near": near, "beside": beside, "id": " ".join(str(each.get("id", "")) for each in experiments(report))}


# ---- simulations ----------------------------------------------------------------------------------------------------


def policies(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row for each policy, the least stale first."""
    found = report.get("policies") or {}
    rows = [{"policy": name, **{key: row.get(key) for key in MEASURES}} for name, row in found.items()]
    return sorted(rows, key=lambda row: row["staleness"])


def by_day(report: Mapping[str, Any]) -> list[tuple[str, list[tuple[float, float | None]]]]:
    """Return the staleness of each day for each policy, the least stale first; empty for runs of one day."""
    found = report.get("policies") or {}
    days = {row["policy"]: found[row["policy"]].get("staleness_by_day") or [] for row in policies(report)}
    if not days or min(len(values) for values in days.values()) < 2:
        return []
    return [
        (name, thin_points([(at + 1.0, value) for at, value in enumerate(values)])) for name, values in days.items()
    ]


def best_bound(report: Mapping[str, Any]) -> tuple[str, float] | None:
    """Return the name and value of the tightest bound that holds for every policy; None if there is none."""
    bounds = report.get("bounds") or {}
    known = [(name, bounds[name]) for name in ("wp", "slot_price") if bounds.get(name) is not None]
    return max(known, key=lambda each: each[1]) if known else None


def simulation_warnings(report: Mapping[str, Any]) -> list[ResultWarning]:
    found = []
    if report.get("rate_unit"):
        found.append(ResultWarning("unit", word=report["rate_unit"]))
    horizon_s, length_s = report.get("horizon_s") or 0.0, report.get("length_s") or 0.0
    if horizon_s and length_s < 2 * horizon_s:
        found.append(ResultWarning("few_rounds", length_s / horizon_s))
    rows, bound = policies(report), best_bound(report)
    if rows and bound is not None and rows[0]["staleness"] > (1 + LOOSE) * bound[1]:
        found.append(ResultWarning("loose_bound", 1 - bound[1] / rows[0]["staleness"], bound[0]))
    crawlers = report.get("crawlers") or {}
    # A budget above the most visits that the crawlers can make is never used up.
    most = crawlers.get("count", 0) * crawlers.get("pages_per_s", 0.0) * horizon_s
    if most and (report.get("budget") or 0) > 1.001 * most:
        found.append(ResultWarning("budget", most))
    return found


# ---- what if --------------------------------------------------------------------------------------------------------


def side(report: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """Return one side of a what-if, with the freshness as flat fields; None if it is missing."""
    found = report.get(name)
    if not found:
        return None
    fresh = found.get("fresh") or {}
    flat = {"fresh": fresh.get("mean"), "fresh_low": fresh.get("low"), "fresh_high": fresh.get("high")}
    return {**found, **flat}


def what_if_warnings(report: Mapping[str, Any]) -> list[ResultWarning]:
    found = []
    if (report.get("visited_again") or 0) < MIN_REVISITED:
        found.append(ResultWarning("few_visits", report.get("visited_again") or 0))
    if (report.get("prior_share") or 0.0) > 0.5:
        found.append(ResultWarning("prior", report["prior_share"]))
    gain = report.get("gain")
    if gain and gain["low"] < 0 < gain["high"]:
        found.append(ResultWarning("unsure"))
    after = side(report, "what_if") or side(report, "as_is")
    if after and after["bound"] - after["fresh"] > LOOSE:
        found.append(ResultWarning("far_from_bound", after["bound"] - after["fresh"]))
    return found


def applicable(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changed settings that a collection can adopt: its delay and its policy."""
    before, after = (((report.get(name) or {}).get("terms") or {}) for name in ("as_is", "what_if"))
    return {key: after[key] for key in ("delay_s", "policy") if key in after and after[key] != before.get(key)}


# ---- plans ----------------------------------------------------------------------------------------------------------


def rate_groups(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return groups of a plan's pages, from the least to the most frequently changing."""
    keys = ("rate_per_day", "pages", "visits_per_page", "staleness")
    return [{key: each.get(key) for key in keys} for each in report.get("by_rate") or [] if isinstance(each, dict)]


def by_rate(report: Mapping[str, Any], key: str) -> list[tuple[float, float | None]]:
    """Return a line over the change rates of a plan's pages; rate 0 is left out, a logarithmic axis has none."""
    return [(each["rate_per_day"], each[key]) for each in rate_groups(report) if each["rate_per_day"]]


# ---- experiments ----------------------------------------------------------------------------------------------------


def experiments(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [each for each in report.get("experiments") or [] if isinstance(each, dict)]


@dataclass(frozen=True, slots=True)
class ShownTable:
    """Table of an experiment.

    `beside` names the source of the numbers beside ours; `left_out` rows are only in the file.
    """

    name: str
    title: str
    labels: list[str]
    beside: str
    note: str
    rows: list[dict[str, Any]]
    left_out: int
    file: str


def tables(experiment: Mapping[str, Any], most: int = SHOWN_ROWS) -> list[ShownTable]:
    """Return the tables of an experiment, with at most `most` rows each."""
    found = []
    for name, rows in (experiment.get("tables") or {}).items():
        about = (experiment.get("about") or {}).get(name) or {}
        numbers = {"ours", "difference", about.get("beside", "published")}
        labels = about.get("labels") or [key for key in (rows[0] if rows else {}) if key not in numbers]
        beside = about.get("beside") or "published"
        shown = [
            {
                "labels": [row.get(label, "") for label in labels],
                "other": row.get(beside),
                "ours": row.get("ours"),
                "difference": row.get("difference"),
                "relative": relative(row.get("ours"), row.get(beside)),
            }
            for row in rows[:most]
        ]
        file = f"{experiment.get('id', '')}-{name}.csv"
        left_out = len(rows) - len(shown)
        title, note = about.get("title", name), about.get("note", "")
        found.append(ShownTable(name, title, labels, beside, note, shown, left_out, file))
    return found


def relative(ours: float | None, other: float | None) -> float | None:
    """Return the relative difference of `ours` from `other`; None if it cannot be computed."""
    return None if ours is None or not other else (ours - other) / abs(other)


def agreement(report: Mapping[str, Any]) -> tuple[int, int]:
    """Return how many of our numbers are near the reference numbers, and how many have a reference."""
    near = beside = 0
    for each in experiments(report):
        for name, rows in (each.get("tables") or {}).items():
            key = ((each.get("about") or {}).get(name) or {}).get("beside") or "published"
            found = [row for row in rows if row.get(key) is not None]
            beside += len(found)
            near += sum(_is_near(row.get("ours"), row[key]) for row in found)
    return near, beside


def _is_near(ours: float | None, other: float) -> bool:
    return ours is not None and abs(ours - other) <= NEAR * abs(other) + 1e-12


def figure_points(series: Mapping[str, Any]) -> list[tuple[float, float | None]]:
    """Return one line of a figure, thinned for a chart."""
    return thin_points([(x, y) for x, y in zip(series["x"], series["y"], strict=False) if x is not None])


def thin_points(points: Sequence[tuple[float, float | None]]) -> list[tuple[float, float | None]]:
    """Thin points to what a chart can show; keep the last one."""
    # Rounded up; at least 1, for an empty line.
    every = -(-len(points) // SHOWN_POINTS) or 1
    thinned = list(points[::every])
    return thinned if not points or thinned[-1] == points[-1] else [*thinned, points[-1]]


# ---- files and comparison -------------------------------------------------------------------------------------------


def rows_of(kind: str, report: Mapping[str, Any]) -> list[tuple[str, float | None]]:
    """Return every number of a report with its name, in an order that two reports of a kind share."""
    if kind == "simulate":
        found = [
            (f"{row['policy']} {key}", row[key])
            for row in sorted(policies(report), key=lambda row: str(row["policy"]))
            for key in MEASURES
            if row[key] is not None
        ]
        return found + [(f"bound {name}", value) for name, value in (report.get("bounds") or {}).items()]
    if kind == "whatif":
        sides = [(name, side(report, name)) for name in ("as_is", "what_if")]
        found = [(f"{name} {key}", each.get(key)) for name, each in sides if each for key in SIDES]
        gain = report.get("gain") or {}
        return found + [(f"gain {key}", gain[key]) for key in ("mean", "low", "high") if key in gain]
    if kind == "plan":
        found = [(key, report.get(key)) for key in PLANNED]
        return found + [(f"bound {name}", value) for name, value in (report.get("bounds") or {}).items()]
    return [
        (" ".join([str(each.get("id", "")), table.name, *map(str, row["labels"])]), row["ours"])
        for each in experiments(report)
        for table in tables(each, COMPARED_ROWS)
        for row in table.rows
    ]


def csv_of(kind: str, report: Mapping[str, Any]) -> str:
    """Format the numbers of a report as CSV."""
    if kind != "simulate":
        return csv_text(["what", "value"], rows_of(kind, report))
    rows = [[row["policy"], *(row[key] for key in MEASURES)] for row in policies(report)]
    bounds = [[f"bound:{name}", value] for name, value in (report.get("bounds") or {}).items()]
    return csv_text(["policy", *MEASURES], [*rows, *bounds])


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """Row of a comparison: one value per run, None if a run has none."""

    name: str
    values: list[Any]


def compare_reports(kind: str, reports: Sequence[Mapping[str, Any]]) -> list[ComparisonRow]:
    """Compare the numbers of several reports, side by side."""
    columns = [dict(rows_of(kind, report)) for report in reports]
    names = list(dict.fromkeys(name for column in columns for name in column))[:COMPARED_ROWS]
    return [ComparisonRow(name, [column.get(name) for column in columns]) for name in names]


def differing_parameters(runs: Sequence[Mapping[str, Any]]) -> list[ComparisonRow]:
    """Return the parameters in which runs differ."""
    names = list(dict.fromkeys(name for each in runs for name in each))
    rows = [ComparisonRow(name, [_plain(each.get(name, "")) for each in runs]) for name in names]
    return [row for row in rows if len(set(row.values)) > 1]


def _plain(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
