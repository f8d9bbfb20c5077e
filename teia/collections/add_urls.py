"""Add many URLs at once: each is checked like a seed, and accepted ones become seeds (A10).

One invalid URL rejects the whole list, so that the user can fix the list and send it again. A URL that the collection
would not crawl is reported and left out. A URL that is known already stays as it is. The others become seeds: they are
written to teia.toml before the caller gets its answer, and a running crawl takes them up at once (settings.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from teia.clock import Clock
from teia.collections.drafts import MAX_SEEDS, SEEDS, check_seeds
from teia.collections.preview_url import UrlTester
from teia.collections.settings import apply_edits, change, implied_scope
from teia.config.sections import Config
from teia.crawler.compiled_settings import seeds_of
from teia.crawler.lookup import Lookup
from teia.errors import UsageError
from teia.lib.message import Message
from teia.records import Edit, Operator
from teia.store.root import Root
from teia.urls import from_user

MAX_URLS = 200
"""Most URLs of one request."""

KNOWN = frozenset({"queued", "done", "failed", "alias"})


class WrongUrls(UsageError):
    """Error for a typed text that is no URL; `faults` are (line, reason)."""

    field = "urls"

    def __init__(self, faults: Sequence[tuple[int, str]]) -> None:
        super().__init__("; ".join(message for _, message in faults[:3]))
        self.faults = tuple(faults)


@dataclass(frozen=True, slots=True)
class AddUrlResult:
    """Result for one URL: `added`, `known` with its state, or `refused` with the reason."""

    url: str
    fate: str
    state: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class AddedUrls:
    """Result for a list of URLs.

    `widened` are the include rules that new seeds add, where the scope is that of the seeds. `is_running`: a crawl is
    running and has received them.
    """

    urls: tuple[AddUrlResult, ...] = ()
    widened: tuple[str, ...] = ()
    is_running: bool = False


def check_urls(typed: Sequence[str], config: Config, lookup: Lookup | None) -> tuple[AddUrlResult, ...]:
    """Check URLs without adding them, each once; WrongUrls if one is invalid. `lookup` finds known URLs."""
    faults = [(fault.index or 0, fault.message) for fault in check_seeds(typed)] if typed else [(0, EMPTY_LIST_MESSAGE)]
    if len(typed) > MAX_URLS:
        faults = [(MAX_URLS, Message("{n:,} URLs exceed the maximum of {most} at a time", n=len(typed), most=MAX_URLS))]
    if faults:
        raise WrongUrls(faults)
    urls = list(dict.fromkeys(url for text in typed if (url := from_user(text)) is not None))
    # Checked as if all of them were seeds already: a seed needs no rule that includes it.
    tester, seeds = UrlTester(apply_edits(config, _edits(urls)), lookup), frozenset(seeds_of(config))
    return tuple(_check_url(tester, url, is_seed=url in seeds) for url in urls)


EMPTY_LIST_MESSAGE = Message("enter at least one URL, such as https://example.org/page")


def _check_url(tester: UrlTester, url: str, *, is_seed: bool) -> AddUrlResult:
    result = tester.test(url)
    if result.state in KNOWN or is_seed:
        return AddUrlResult(url, "known", result.state or "seed")
    return AddUrlResult(url, "added") if result.is_crawled else AddUrlResult(url, "refused", result.state, result.why)


def _edits(urls: Sequence[str]) -> list[Edit]:
    return [Edit(SEEDS, Operator.ADD, url) for url in urls]


def add_urls(
    root: Root, name: str, typed: Sequence[str], config: Config, lookup: Lookup | None, clock: Clock
) -> AddedUrls:
    """Make URLs seeds of a collection, and wait until a running crawl has applied them.

    WrongUrls if the collection would have more seeds than it may.
    """
    found = check_urls(typed, config, lookup)
    new = [each.url for each in found if each.fate == "added"]
    if not new:
        return AddedUrls(found)
    seeds = len(config.collection.seeds) + len(new)
    if seeds > MAX_SEEDS:
        raise WrongUrls([(0, Message("{n:,} seeds exceed the maximum of {most:,}", n=seeds, most=MAX_SEEDS))])
    changed = change(root, name, _edits(new), clock)
    return AddedUrls(found, _added_rules(config, new), changed.running)


def _added_rules(config: Config, new: Sequence[str]) -> tuple[str, ...]:
    """Return the rules that new seeds add to the scope."""
    if config.scope.include:
        return ()
    before = implied_scope(config.collection.seeds)
    return tuple(rule for rule in implied_scope([*config.collection.seeds, *new]) if rule not in before)
