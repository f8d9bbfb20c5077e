"""Captures as a CDX server lists them: by URL, prefix, host or domain, filtered and sorted.

The frontier knows where each capture lies; the fields of a line come from the record itself. So a line appears as soon
as its capture is committed, and does not wait for the CDXJ file of a closed WARC file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from math import inf
from typing import Literal, NamedTuple

from teia.crawler.lookup import Lookup
from teia.errors import CorruptFile, UsageError
from teia.frontier.tables.hosts import hosts_of_domain
from teia.frontier.tables.pages import VisitEntry, captured_urls
from teia.lib.linearregex import compile_test
from teia.lib.message import Message
from teia.store.cdxj import cdx_fields, timestamp
from teia.store.surt import surt
from teia.urls import from_user, split

MatchType = Literal["exact", "prefix", "host", "domain"]
Sort = Literal["default", "reverse", "closest"]

MAX_URLS = 100_000
"""Most URLs of a prefix, host or domain that one query may sort."""

MAX_LINES = 10_000
"""Most lines of one answer."""

MAX_RECORDS = 20_000
MAX_RECORD_BYTES = 512 << 20
"""Most records that one query may read, and their bytes; a filter may refuse every one of them."""

FIELDS = ("urlkey", "timestamp", "url", "mime", "status", "digest", "length", "offset", "filename")
_OTHER_NAMES = {"original": "url", "mimetype": "mime", "statuscode": "status"}
"""Names of the fields in the Wayback Machine's server."""

_WWW = re.compile(r"https?://(www\.)?(.*)", re.DOTALL)
_FILTER = re.compile(r"(?P<not>!?)(?P<how>[=~]?)(?P<field>[a-z]+):(?P<value>.*)", re.DOTALL)
_STAMP = re.compile(r"[0-9]{4,14}")
_UNITS = {8: timedelta(days=1), 10: timedelta(hours=1), 12: timedelta(minutes=1), 14: timedelta(seconds=1)}
"""Unit that a number of digits names; months and years differ in length."""

CdxLine = dict[str, str]
Test = Callable[[CdxLine], bool]


class Capture(NamedTuple):
    """A capture's URL, cell and visit."""

    url: str
    cell: int
    visit: VisitEntry


@dataclass(frozen=True, slots=True)
class CdxQuery:
    """A query: the URL as the client wrote it, and times as digits of a timestamp."""

    url: str
    match: MatchType = "exact"
    first: str = ""
    last: str = ""
    closest: str = ""
    sort: Sort = "default"
    limit: int = MAX_LINES
    tests: Sequence[Test] = ()


def field_name(name: str) -> str:
    """Return the name of a field, which the client may write as the Wayback Machine does."""
    found = _OTHER_NAMES.get(name, name)
    if found not in FIELDS:
        raise UsageError(Message("{name!r} is not a field; the fields are {names}", name=name, names=", ".join(FIELDS)))
    return found


def compile_filter(text: str, *, is_regex: bool = False) -> Test:
    """Return the test of `[!][=|~]field:value`: contained, equal or a regular expression; by default as given."""
    match = _FILTER.fullmatch(text)
    if match is None:
        raise UsageError(Message("{text!r} is not a filter; write it like =status:200", text=text[:200]))
    name, value, is_wanted = field_name(match["field"]), match["value"], not match["not"]
    if match["how"] == "=":
        return lambda line: (line[name] == value) is is_wanted
    if match["how"] != "~" and not is_regex:
        return lambda line: (value in line[name]) is is_wanted
    try:
        # RE2, because a client's expression must not take longer than the text is long.
        test = compile_test(f"^(?:{value})$" if is_regex else f"^(?:{value})")
    except ValueError as error:
        raise UsageError(Message("{text!r} is not a filter: {why}", text=text[:200], why=str(error))) from error
    return lambda line: test(line[name]) is is_wanted


def moment_of(stamp: str, *, is_end: bool = False) -> float:
    """Return the beginning of the year, month, day or second that four to fourteen digits name, or its end."""
    digits = len(stamp)
    try:
        if not _STAMP.fullmatch(stamp) or digits % 2:
            raise ValueError
        moment = datetime.strptime(stamp + "0101000000"[digits - 4 :], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
        if is_end and digits == 4:
            moment = moment.replace(year=moment.year + 1)
        elif is_end and digits == 6:
            moment = (moment + timedelta(days=31)).replace(day=1)
        elif is_end:
            moment += _UNITS[digits]
    except (ValueError, OverflowError):
        raise UsageError(
            Message("{stamp!r} is not a time of 4 to 14 digits, such as 20261104", stamp=stamp[:40])
        ) from None
    return moment.timestamp()


def captures_of(lookup: Lookup, url: str) -> list[Capture]:
    """Return the captures of a URL, oldest first.

    Web archives treat `http` and `https`, with and without `www.`, as one address, so all four are looked up.
    """
    match = _WWW.fullmatch(url)
    if match is None:
        return _captures(lookup, [url])
    return _captures(lookup, [f"{scheme}://{www}{match[2]}" for scheme in ("http", "https") for www in ("", "www.")])


def _captures(lookup: Lookup, urls: Sequence[str]) -> list[Capture]:
    found: list[Capture] = []
    for url in urls:
        canonical = from_user(url)
        entry = lookup.find(canonical) if canonical is not None else None
        if entry is not None:
            found += [Capture(entry.url, entry.cell, visit) for visit in lookup.visits(entry) if visit.file]
    return sorted(found, key=lambda capture: capture.visit.time_s)


def cdx_lines(lookup: Lookup, query: CdxQuery) -> list[CdxLine]:
    """Return the lines that a query finds, sorted by key and time."""
    lines = _matching(lookup, query)
    if query.sort == "closest" or query.closest:
        wanted_s = moment_of(query.closest)
        return sorted(lines, key=lambda line: abs(moment_of(line["timestamp"]) - wanted_s))[: query.limit]
    if query.sort == "reverse":
        return list(lines)[::-1][: query.limit]
    return list(islice(lines, query.limit))


def _matching(lookup: Lookup, query: CdxQuery) -> Iterator[CdxLine]:
    first_s = moment_of(query.first) if query.first else 0.0
    last_s = moment_of(query.last, is_end=True) if query.last else inf
    records = octets = 0
    for key, captures in _by_key(lookup, query):
        for capture in captures:
            if first_s <= capture.visit.time_s < last_s:
                records, octets = records + 1, octets + capture.visit.length
                if records > MAX_RECORDS or octets > MAX_RECORD_BYTES:
                    raise UsageError(
                        Message("more than {n:,} captures had to be read; ask for fewer URLs or times", n=records - 1)
                    )
                line = _line(lookup, key, capture)
                if line is not None and all(test(line) for test in query.tests):
                    yield line


def _line(lookup: Lookup, key: str, capture: Capture) -> CdxLine | None:
    try:
        fields = cdx_fields(lookup.record(capture.cell, capture.visit.file, capture.visit.offset))
    except CorruptFile:
        return None  # the audit names it
    return None if fields is None else {"urlkey": key, "timestamp": timestamp(capture.visit.time_s), **fields}


def _by_key(lookup: Lookup, query: CdxQuery) -> Iterator[tuple[str, list[Capture]]]:
    """Yield the key of each address that a query names, in order, with its captures."""
    text, match = query.url, query.match
    if match == "exact" and text.endswith("*"):
        text, match = text[:-1], "prefix"
    elif match == "exact" and text.startswith("*."):
        text, match = text[2:], "domain"
    url = from_user(text)
    if url is None:
        raise UsageError(Message("{url!r} is not an http or https URL", url=text[:200]))
    if match == "exact":
        yield surt(url), captures_of(lookup, url)
        return
    start, urls, number = surt(url), dict[str, list[str]](), 0
    for host in _hosts(lookup, split(url).host.removeprefix("www."), match):
        for each in captured_urls(lookup.cells[lookup.cell_of_host(host)], host, MAX_URLS + 1):
            key = surt(each)
            if match != "prefix" or key.startswith(start):
                urls.setdefault(key, []).append(each)
                number += 1
        if number > MAX_URLS:
            raise UsageError(Message("more than {n:,} URLs match; ask for a longer prefix", n=MAX_URLS))
    for key in sorted(urls):
        yield key, _captures(lookup, urls[key])


def _hosts(lookup: Lookup, host: str, match: MatchType) -> list[str]:
    if match != "domain":
        return [host, f"www.{host}"]
    return sorted({name for cell in lookup.cells for name in hosts_of_domain(cell, host)})


# ---- forms of an answer ---------------------------------------------------------------------------------------------


def as_cdxj(line: CdxLine, fields: Sequence[str]) -> str:
    """Return a line as pywb writes it: key, timestamp, and the other fields as JSON."""
    rest = {name: line[name] for name in FIELDS[2:] if not fields or name in fields}
    return f"{line['urlkey']} {line['timestamp']} {json.dumps(rest)}\n"


def as_json_line(line: CdxLine, fields: Sequence[str]) -> str:
    """Return a line as pywb writes it with output=json."""
    return json.dumps({name: line[name] for name in fields or FIELDS}) + "\n"


WAYBACK_FIELDS = ("urlkey", "timestamp", "original", "mimetype", "statuscode", "digest", "length")
"""Fields of an answer of the Wayback Machine's server, in its order and with its names."""


def as_wayback_row(line: CdxLine, names: Sequence[str]) -> list[str]:
    """Return the values of a line under the Wayback Machine's names."""
    return [line[field_name(name)] for name in names]


def collapse(lines: Sequence[CdxLine], field: str) -> list[CdxLine]:
    """Keep the first of neighbouring lines that are equal in a field, or in its first characters (`field:4`)."""
    name, _, length = field.partition(":")
    name, chars = field_name(name), int(length) if length.isdigit() else None
    kept: list[CdxLine] = []
    last: tuple[str, str] | None = None
    for line in lines:
        value = (line["urlkey"] if name != "urlkey" else "", line[name][:chars])
        if value != last:
            kept.append(line)
        last = value
    return kept
