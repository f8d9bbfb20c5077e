"""URLs that somebody wants crawled, many at a time: judged like seeds, then seeds (UX 2.8, A10).

What is no URL stops all of it, so that a list can be mended and sent again. A URL that the collection would not crawl
is told and left out; one that it knows already stays as it is. The others become seeds: they are in teia.toml before
anybody is told, and a crawl that runs takes them up at once (changing.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from teia.clock import Clock
from teia.config import Config
from teia.crawl.changing import change
from teia.crawl.drafting import MAX_SEEDS, SEEDS, seed_faults
from teia.crawl.edits import Edit, Operator, edited, implied_scope
from teia.crawl.lookup import Lookup
from teia.crawl.meaning import seeds_of
from teia.crawl.trying import Trial
from teia.errors import UsageError
from teia.store.root import Root
from teia.urls import from_user

MOST = 200
"""At a time."""

KNOWN = frozenset({"queued", "done", "failed", "alias"})


class WrongUrls(UsageError):
    """Something that was typed is no URL; `faults` are (line, what is wrong with it)."""

    field = "urls"

    def __init__(self, faults: Sequence[tuple[int, str]]) -> None:
        super().__init__("; ".join(message for _, message in faults[:3]))
        self.faults = tuple(faults)


@dataclass(frozen=True, slots=True)
class Judged:
    """What becomes of one URL: `added`, `known` with its state, or `refused` with why."""

    url: str
    fate: str
    state: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Added:
    """What became of URLs. `widened` are rules that new seeds bring, where the scope is that of the seeds.

    `is_running`: a crawl runs and has them.
    """

    urls: tuple[Judged, ...] = ()
    widened: tuple[str, ...] = ()
    is_running: bool = False


def judged(typed: Sequence[str], config: Config, lookup: Lookup | None) -> tuple[Judged, ...]:
    """Say what would become of URLs, each once; WrongUrls if one is none. `lookup` is what the collection knows."""
    faults = [(fault.place or 0, fault.message) for fault in seed_faults(typed)] if typed else [(0, NOTHING)]
    if len(typed) > MOST:
        faults = [(MOST, f"{len(typed):,} URLs are more than {MOST} at a time")]
    if faults:
        raise WrongUrls(faults)
    urls = list(dict.fromkeys(url for text in typed if (url := from_user(text)) is not None))
    trial, seeds = Trial(edited(config, _edits(urls)), lookup), frozenset(seeds_of(config))
    return tuple(_judged(trial, url, is_seed=url in seeds) for url in urls)


NOTHING = "write at least one URL, like https://example.org/page"


def _judged(trial: Trial, url: str, *, is_seed: bool) -> Judged:
    tried = trial.one(url)
    if tried.state in KNOWN or is_seed:
        return Judged(url, "known", tried.state or "seed")
    return Judged(url, "added") if tried.is_crawled else Judged(url, "refused", tried.state, tried.why)


def _edits(urls: Sequence[str]) -> list[Edit]:
    return [Edit(SEEDS, Operator.ADD, url) for url in urls]


def add_urls(root: Root, name: str, typed: Sequence[str], config: Config, lookup: Lookup | None, clock: Clock) -> Added:
    """Make URLs seeds of a collection, and wait until a crawl that runs has taken them up.

    WrongUrls where it would have more seeds than a collection may.
    """
    found = judged(typed, config, lookup)
    new = [each.url for each in found if each.fate == "added"]
    if not new:
        return Added(found)
    seeds = len(config.collection.seeds) + len(new)
    if seeds > MAX_SEEDS:
        raise WrongUrls([(0, f"{seeds:,} seeds are more than {MAX_SEEDS:,}")])
    changed = change(root, name, _edits(new), clock)
    return Added(found, _widened(config, new), changed.running)


def _widened(config: Config, new: Sequence[str]) -> tuple[str, ...]:
    """The rules that new seeds bring with them."""
    if config.scope.include:
        return ()
    before = implied_scope(config.collection.seeds)
    return tuple(rule for rule in implied_scope([*config.collection.seeds, *new]) if rule not in before)
