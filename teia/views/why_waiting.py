"""One sentence that explains why a URL has not been fetched, or will not be."""

from __future__ import annotations

from teia.clock import iso_utc
from teia.collections.settings import implied_scope, saved
from teia.config.sections import Config
from teia.crawler.compiled_settings import EXPLICIT
from teia.crawler.lookup import Lookup, UrlEntry, alias_note
from teia.errors import ConfigError, StoreError
from teia.frontier.cell.schema import LANE_DUE, LANE_LATER, LANE_NEW
from teia.frontier.queue.host_rules import PAUSED, paused_hosts
from teia.frontier.queue.ledger import read_ready_at_s
from teia.frontier.queue.retry import RETRY_RULES
from teia.frontier.rules.scope import why_out_of_scope
from teia.frontier.tables import hosts
from teia.frontier.traps.pattern_table import HostPatterns
from teia.frontier.traps.url_shapes import trap_of
from teia.lib.message import Message, decoded, joined, plain
from teia.records import Outcome
from teia.urls import site_of, slot_of
from teia.views.reports.outcomes import outcome_words

MAX_COUNTED_AHEAD = 100_000

_EXCLUDED = {
    Outcome.ROBOTS: Message("robots.txt disallows it"),
    Outcome.TRAP: Message("it looks like a trap"),
    Outcome.BUDGET: Message("its host or site has reached its limit of requests or bytes"),
    Outcome.ALIAS: Message("its host was treated as an alias of another site; it is queued again"),
    Outcome.BLOCKED_ADDRESS: Message("the address of its host is blocked (see --allow-net)"),
    Outcome.FORBIDDEN_TYPE: Message("the collection does not store its type"),
    Outcome.DROPPED: Message("removed from the queue by a user"),
}


def why_waiting(lookup: Lookup, entry: UrlEntry, now_s: float) -> str | None:
    """Explain why a URL is not fetched yet, or never; None for one that is."""
    if entry.state == "done":
        return None
    if entry.state == "excluded":
        # Only while the host still is an alias.
        if entry.outcome == Outcome.ALIAS and (of_main := alias_note(lookup, entry.url)) is not None:
            return of_main
        if entry.outcome == Outcome.OUT_OF_SCOPE:
            return _left_out(lookup, entry) or Message("it was out of scope; the next crawl checks it again")
        if entry.outcome == Outcome.TRAP and (of_pattern := _suspicion(lookup, entry)):
            return Message("it looks like a trap: {why}", why=of_pattern)
        return _EXCLUDED.get(Outcome(entry.outcome), outcome_words(entry.outcome))
    if entry.state == "failed":
        tries = RETRY_RULES[entry.outcome].tries if entry.outcome in RETRY_RULES else 1
        return Message(
            "failed ({outcome}), {times}; no more retries", outcome=outcome_words(entry.outcome), times=_times(tries)
        )
    left_out = _left_out(lookup, entry)
    if left_out:
        return Message("{why}; it will not be fetched", why=left_out)
    # Several may hold at once; all are given.
    reasons = [
        _retry(entry, now_s),
        _parked(lookup, entry),
        _delay(lookup, entry, now_s),
        _queue_position(lookup, entry),
        _queued_last(lookup, entry),
    ]
    return joined("; ", filter(None, reasons)) or Message("next in the queue; fetched when a crawl runs")


def why_unknown(url: str, config: Config) -> str:
    """Explain why a collection does not know a URL: scope, trap rules, or no link to it."""
    scope = config.scope
    include = scope.include or implied_scope(config.collection.seeds)
    why = why_out_of_scope(url, include, scope.exclude, scope.queries)
    if why:
        return Message("it is out of scope: {why}", why=why)
    trap = trap_of(url, config.limits)
    return (
        Message("it would be treated as a trap ({why})", why=trap) if trap else Message("no fetched page links to it")
    )


def _left_out(lookup: Lookup, entry: UrlEntry) -> str:
    """Explain why the collection's settings leave a URL out; empty if they do not."""
    config = saved(lookup.root, lookup.name).config
    scope, is_explicit = config.scope, entry.found_by & EXPLICIT
    # A URL that a user named, or that a page requires, needs no include rule.
    include = () if is_explicit else scope.include or implied_scope(config.collection.seeds)
    try:
        why = why_out_of_scope(entry.url, include, scope.exclude, scope.queries or bool(is_explicit))
    except ConfigError as error:
        return Message("the scope rules cannot be evaluated: {why}", why=error)
    if why:
        return Message("it is out of scope: {why}", why=why)
    if not is_explicit and entry.depth > scope.max_depth:
        why = Message("its depth of {n} is above scope.max_depth = {most}", n=entry.depth, most=scope.max_depth)
        return Message("it is out of scope: {why}", why=why)
    language = entry.page.language if entry.page is not None and entry.outcome == Outcome.OUT_OF_SCOPE else ""
    why = Message("its language is {language}", language=language)
    return Message("it is out of scope: {why}", why=why) if language else ""


def _times(number: int) -> str:
    return Message("once") if number == 1 else Message("{n} times", n=number)


def _retry(entry: UrlEntry, now_s: float) -> str:
    if entry.lane != LANE_DUE or not entry.failures:
        return ""
    due_s = entry.rank / 1000
    failed: dict[str, str] = {"times": _times(entry.failures), "outcome": outcome_words(entry.outcome)}
    if due_s <= now_s:
        return Message("failed {times} ({outcome}), next attempt due", **failed)
    return Message("failed {times} ({outcome}), next attempt at {time}", **failed, time=iso_utc(due_s))


def _parked(lookup: Lookup, entry: UrlEntry) -> str:
    if entry.host in paused_hosts(saved(lookup.root, lookup.name).config.courtesy.paused):
        return Message("its host is paused by an operator")
    host = hosts.find(lookup.cells[entry.cell], entry.host_id)
    is_parked = host and host.parked and host.parked != PAUSED
    return Message("its host is parked: {why}", why=decoded(host.parked)) if host and is_parked else ""


def _delay(lookup: Lookup, entry: UrlEntry, now_s: float) -> str:
    """Tell until when the host's politeness delay lasts, by the ledger, which all collections of a root share."""
    try:
        ready_at_s = read_ready_at_s(lookup.root.path / "ledger.sqlite", entry.host)
    except StoreError:
        return ""  # the sentence is shorter, the answer no less true
    return Message("delay of its host until {time}", time=iso_utc(ready_at_s)) if ready_at_s > now_s else ""


def _queued_last(lookup: Lookup, entry: UrlEntry) -> str:
    """Explain why a URL waits behind everything else of its host; empty if it does not."""
    return Message("queued last on its host: {why}", why=_suspicion(lookup, entry)) if entry.lane == LANE_LATER else ""


def _suspicion(lookup: Lookup, entry: UrlEntry) -> str:
    """Return the suspicion against URLs like this one: the reason, and their pattern (frontier/traps/detector.py)."""
    known = HostPatterns(entry.host, entry.host_id, slot_of(site_of(entry.host)))
    known.load(lookup.cells[entry.cell])
    pattern = known.get(entry.pattern)
    if pattern is None or not pattern.reason:
        return ""
    return Message("{why} ({pattern})", why=plain(pattern.reason), pattern=pattern.text)


def _queue_position(lookup: Lookup, entry: UrlEntry) -> str:
    if entry.lane != LANE_NEW:
        return ""
    slot, host_id, key = entry.row_key
    ahead = hosts.count_ahead(lookup.cells[entry.cell], slot, host_id, (entry.rank, key), MAX_COUNTED_AHEAD)
    if ahead == MAX_COUNTED_AHEAD:
        return Message("queued behind {n:,} or more URLs of its host", n=ahead)
    if ahead == 1:
        return Message("queued behind 1 URL of its host")
    return Message("queued behind {n:,} URLs of its host", n=ahead) if ahead else ""
