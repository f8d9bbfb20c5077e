"""Worlds to plan for: read from a file, or generated.

A file is CSV with a header: page, server, weight, rate_per_day, and optionally size_bytes, age_s and clicks (a page's
share of searchers' clicks, in any unit). Pages and servers are names. Where all pages are whole numbers these are their
ids; otherwise ids follow the order of the file. Lines before the header may describe crawlers and servers, one each:

    #crawler,PAGES_PER_S
    #server,NAME,BYTES_PER_S[,POLITENESS_S]
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np

from teia.errors import UsageError
from teia.lib.message import Message
from teia.refresh.model import DAY_S, Crawlers, Floats, Numbers, RefreshWorld

NEEDED: Final = ("page", "server", "weight", "rate_per_day")
OPTIONAL: Final = ("size_bytes", "age_s", "clicks")
BYTES_PER_S: Final = 1e6
"""Speed of servers that a file does not describe."""

SLOWEST, FASTEST = 0.01, 1.0
"""Limits of the rates of generated pages, in changes per unit of time (P6); the paper does not name the unit."""


@dataclass(slots=True)
class Scenario:
    """Pages as read from a file; `world` adds the horizon and the politeness and gives a `RefreshWorld`.

    `crawlers` are the speeds of crawlers. `described` has the speed of servers, and the delay or None.
    """

    pages: list[str] = field(default_factory=list)
    servers: list[str] = field(default_factory=list)
    server: list[int] = field(default_factory=list)
    numbers: dict[str, list[float]] = field(default_factory=dict)
    crawlers: list[float] = field(default_factory=list)
    described: dict[str, tuple[float, float | None]] = field(default_factory=dict)

    @property
    def ids(self) -> Numbers:
        # 18 digits always fit into an int64.
        if all(name.isascii() and name.isdigit() and len(name) < 19 for name in self.pages):
            return np.array([int(name) for name in self.pages], dtype=np.int64)
        return np.arange(len(self.pages))

    def world(
        self,
        *,
        horizon_s: float,
        politeness_s: float,
        budget: int | None = None,
        crawlers: Crawlers | None = None,
        bytes_per_s: float = BYTES_PER_S,
    ) -> RefreshWorld:
        """Return the world of these pages; what the file says of crawlers and servers comes before the parameters."""
        speeds = [self.described.get(name, (bytes_per_s, None)) for name in self.servers]
        return RefreshWorld.build(
            self.server,
            np.array(self.numbers["rate_per_day"]) / DAY_S,
            weight=self.numbers["weight"],
            page=self.ids,
            servers=len(self.servers),
            size_bytes=self.numbers.get("size_bytes", 0.0),
            age_s=self.numbers.get("age_s", 0.0),
            clicks=self.numbers.get("clicks"),
            horizon_s=horizon_s,
            politeness_s=[politeness_s if delay_s is None else delay_s for _, delay_s in speeds],
            bytes_per_s=[speed for speed, _ in speeds],
            budget=budget,
            crawlers=Crawlers.of_speeds(self.crawlers) if self.crawlers else crawlers,
        )

    def names_of(self, world: RefreshWorld) -> list[str]:
        """Return the names of a world's pages in the order of its columns."""
        ids = self.ids
        order = np.argsort(ids, kind="stable")
        return [self.pages[row] for row in order[np.searchsorted(ids[order], world.page)].tolist()]


class WrongScenario(UsageError):
    """A file of pages cannot be read; `why` is the reason without the file's name."""

    def __init__(self, name: str, why: str, separator: str = ": ") -> None:
        super().__init__(f"{name}{separator}{why}")
        self.why = why


def read_scenario(path: Path) -> Scenario:
    """Read a file of pages. The error for a bad file names its first broken row and the number of further ones."""
    try:
        # utf-8-sig: spreadsheet programs write a byte order mark.
        with path.open(encoding="utf-8-sig", newline="") as file:
            return _read(str(path), csv.reader(file))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path}: not a CSV file in UTF-8: {error}") from error


def parse_scenario(text: str, name: str) -> Scenario:
    """Read pages from a text; error messages call it `name`."""
    try:
        return _read(name, csv.reader(text.splitlines()))
    except csv.Error as error:
        raise WrongScenario(name, f"not CSV: {error}") from error


def _read(path: str, rows: Iterator[list[str]]) -> Scenario:
    before, header, first = _read_before_header(path, rows)
    missing = [name for name in NEEDED if name not in header]
    unknown = [name for name in header if name not in NEEDED + OPTIONAL]
    if missing or unknown or len(set(header)) < len(header):
        by = {"needed": ",".join(NEEDED), "optional": ",".join(OPTIONAL)}
        by["names"] = ", ".join(missing or unknown) or "a duplicate column"
        why = (
            Message("the header is missing {names}; columns are {needed} and optionally {optional}", **by)
            if missing
            else Message("the header has {names}; columns are {needed} and optionally {optional}", **by)
        )
        raise WrongScenario(path, Message("line {n}: {why}", n=first, why=why), " ")
    scenario = replace(before, numbers={name: [] for name in header if name not in ("page", "server")})
    reader = _Rows(scenario, header)
    broken: list[Message] = []
    for line, row in enumerate(rows, start=first + 1):
        reason = reader.add(row) if row else None
        if reason is not None:
            broken.append(Message("line {n}: {why}", n=line, why=reason))
    if broken:
        why = broken[0]
        if len(broken) > 1:
            why = Message("{why} (and {n} more invalid rows)", why=why, n=len(broken) - 1)
        raise WrongScenario(path, why, " ")
    if not scenario.pages:
        raise WrongScenario(path, Message("contains no pages"))
    unknown_servers = [name for name in scenario.described if name not in scenario.servers]
    if unknown_servers:
        raise WrongScenario(path, Message("server {name} has no pages", name=unknown_servers[0]))
    return scenario


def _read_before_header(path: str, rows: Iterator[list[str]]) -> tuple[Scenario, list[str], int]:
    """Read the lines that describe crawlers and servers; return them, the header, and its line."""
    scenario, line, row = Scenario(), 1, next(rows, [])
    while row and row[0].startswith("#"):
        kind, *fields = (text.strip() for text in row)
        numbers = [_number(text) for text in (fields if kind == "#crawler" else fields[1:])]
        first = numbers[0] if numbers else None
        if first is None or not 0 < first < math.inf or None in numbers or math.inf in numbers:
            kind = "wrong"
        if kind == "#crawler" and len(numbers) == 1 and first:
            scenario.crawlers.append(first)
        elif kind == "#server" and len(numbers) <= 2 and first and fields[0] not in scenario.described:
            scenario.described[fields[0]] = (first, numbers[1] if len(numbers) == 2 else None)
        else:
            why = Message("must be #crawler,PAGES_PER_S or #server,NAME,BYTES_PER_S[,POLITENESS_S], once for each name")
            raise WrongScenario(path, Message("line {n}: {why}", n=line, why=why), " ")
        line, row = line + 1, next(rows, [])
    return scenario, [name.strip() for name in row], line


class _Rows:
    """Appends rows to a scenario, and gives the reason for rejecting a broken one."""

    def __init__(self, scenario: Scenario, header: Sequence[str]) -> None:
        self._into = scenario
        self._width = len(header)
        self._page, self._server = header.index("page"), header.index("server")
        numbers = [(column_index, name) for column_index, name in enumerate(header) if name in scenario.numbers]
        self._columns = [(column_index, name, scenario.numbers[name]) for column_index, name in numbers]
        self._seen: set[str] = set()
        self._servers: dict[str, int] = {}

    def add(self, row: list[str]) -> str | None:
        if len(row) != self._width:
            return Message("{n} fields instead of {width}", n=len(row), width=self._width)
        page, server = row[self._page].strip(), row[self._server].strip()
        if not page or not server:
            return Message("missing name of the server") if page else Message("missing name of the page")
        if page in self._seen:
            return Message("duplicate page {name}", name=page)
        values = []
        for column_index, name, _ in self._columns:
            value = _number(row[column_index])
            if value is None or (math.isinf(value) and name not in ("rate_per_day", "age_s")):
                return Message("{name} is {value!r}, not a number >= 0", name=name, value=row[column_index].strip())
            values.append(value)
        # All checks are above: a row that is rejected leaves nothing behind.
        self._seen.add(page)
        self._into.pages.append(page)
        if server not in self._servers:
            self._servers[server] = len(self._servers)
            self._into.servers.append(server)
        self._into.server.append(self._servers[server])
        for (_, _, column), value in zip(self._columns, values, strict=True):
            column.append(value)
        return None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value >= 0 else None


def draw_world(
    chance: np.random.Generator,
    *,
    pages: int,
    servers: int,
    horizon_s: float,
    politeness_s: float,
    theta: float = 1.0,
    rates: str = "uniform",
    weights: str = "uniform",
    rate_unit_s: float = DAY_S,
    budget: int | None = None,
    crawlers: Crawlers | None = None,
) -> RefreshWorld:
    """Generate a world as P6 does: pages over servers by Zipf's law, rates between 0.01 and 1 per unit of time.

    `theta` 0 gives all servers the same number of pages; a larger value concentrates them on few. `rates` is `uniform`,
    or `zipf:X` for a density that falls as rate^-X. `weights` is `uniform` (all alike), or `zipf:X` for rank^-X in
    random order.
    """
    if pages < 1 or servers < 1:
        raise UsageError(f"{pages} pages on {servers} servers: at least one of each is required")
    server = np.repeat(np.arange(servers), server_sizes(pages, servers, theta))
    return RefreshWorld.build(
        chance.permutation(server),
        _draw_rates(chance, pages, _exponent("rates", rates)) / rate_unit_s,
        servers=servers,
        weight=_draw_weights(chance, pages, _exponent("weights", weights)),
        horizon_s=horizon_s,
        politeness_s=politeness_s,
        budget=budget,
        crawlers=crawlers,
    )


def _exponent(name: str, law: str) -> float:
    """Return 0 for `uniform`, X for `zipf:X`."""
    if law == "uniform":
        return 0.0
    kind, _, text = law.partition(":")
    value = _number(text)
    if kind != "zipf" or value is None or math.isinf(value):
        raise UsageError(f"{name}: {law!r} must be uniform, or zipf:X with a number X >= 0")
    return value


def server_sizes(pages: int, servers: int, theta: float) -> Numbers:
    """Return the number of pages of each server by Zipf's law, rounded; small servers may have none."""
    if not 0 <= theta < math.inf:
        raise UsageError(f"theta must be a number >= 0, not {theta:g}")
    share = np.arange(1, servers + 1, dtype=np.float64) ** -theta
    exact = pages * share / share.sum()
    whole = np.floor(exact).astype(np.int64)
    left = pages - int(whole.sum())
    # The largest remainders get the pages that rounding down left over.
    whole[np.argsort(whole - exact, kind="stable")[:left]] += 1
    result: Numbers = whole
    return result


def _draw_rates(chance: np.random.Generator, pages: int, exponent: float) -> Floats:
    """Draw rates with a density that falls as rate^-exponent, by the inverse of its distribution."""
    at = chance.random(pages)
    if exponent == 1.0:
        return np.asarray(SLOWEST * np.power(FASTEST / SLOWEST, at), dtype=np.float64)
    power = 1.0 - exponent
    low, high = SLOWEST**power, FASTEST**power
    drawn: Floats = (low + at * (high - low)) ** (1.0 / power)
    return drawn


def _draw_weights(chance: np.random.Generator, pages: int, exponent: float) -> Floats:
    if exponent == 0.0:
        return np.ones(pages)
    drawn: Floats = np.power(1.0 + chance.permutation(pages), -exponent)
    return drawn
