"""Preview of a settings change: its effect on the known URLs of a collection, before it is made (A10).

The crawler makes the same judgement on the same rows when it applies the change (reconsider.py), so the numbers are
those by which its queue shrinks and grows. Counting everything takes some seconds for a million URLs; while the user is
typing, a sample is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from teia.clock import Clock
from teia.collections.open_cells import each_cell
from teia.collections.settings import implied_scope
from teia.config.sections import Config
from teia.crawler.compiled_settings import CompiledSettings, compile_settings
from teia.errors import ConfigError
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.reconsider import END, candidate_urls, progress, reconsider
from teia.frontier.cell.schema import STATE_DONE, STATE_QUEUED
from teia.frontier.rules.scope import Rulebook
from teia.frontier.tables.hosts import all_hosts
from teia.frontier.tables.pages import finished_urls, urls_between
from teia.store.root import Root

EXAMPLES = 20
SAMPLE = 4_000
SAMPLE_S = 0.1
# Keys are signed 64-bit hashes.
KEY_SPAN = 1 << 64


@dataclass(frozen=True, slots=True)
class ChangeEffect:
    """Effect of a change: of `known` URLs `queued` wait; so many leave the queue and so many enter it.

    `not_again` pages stay in the archive but are not visited any more. `examples` are some that leave or are not
    visited again. Where it `is_sample`, the numbers are estimates.
    """

    known: int = 0
    queued: int = 0
    leave: int = 0
    enter: int = 0
    not_again: int = 0
    examples: tuple[str, ...] = ()
    is_sample: bool = False


def count_effect(root: Root, name: str, before: Config, after: Config) -> ChangeEffect:
    """Count the effect of a change, exactly."""
    folder = root.collection(name)
    before_rules, after_rules = _compile_before(before, folder.lists), compile_settings(after, folder.lists)
    known = queued = 0
    is_judged = True
    for cell in each_cell(folder):
        known, queued = known + cell.known, queued + cell.queued
        is_judged = is_judged and progress(cell, after_rules.mark) == END
    # The same decisions, and all URLs were judged by them: nothing changes.
    if before_rules is not None and before_rules.mark == after_rules.mark and is_judged:
        return ChangeEffect(known, queued)
    examples: list[str] = []
    leave = enter = not_again = 0
    for cell in each_cell(folder):
        for candidate, waits in candidate_urls(cell):
            is_wanted = after_rules.may_fetch(candidate)
            leave += waits and not is_wanted
            enter += is_wanted and not waits
            if waits and not is_wanted and len(examples) < EXAMPLES:
                examples.append(candidate.url)
        for url, depth, found_by in finished_urls(cell):
            was_wanted = before_rules is None or before_rules.wants_link(url, depth, found_by)
            if was_wanted and not after_rules.wants_link(url, depth, found_by):
                not_again += 1
                if len(examples) < EXAMPLES:
                    examples.append(url)
    return ChangeEffect(known, queued, leave, enter, not_again, tuple(examples))


def _compile_before(before: Config, lists: Path) -> CompiledSettings | None:
    """Compile the settings before the change; None if an older version wrote them and they are invalid now."""
    try:
        return compile_settings(before, lists)
    except ConfigError:
        return None


# ---- a sample -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SampledEffect:
    """Estimated effect of a configuration: a `ChangeEffect`, and the number of known URLs for each rule."""

    effect: ChangeEffect
    matches: tuple[int, ...]


def sample_effect(root: Root, name: str, after: Config, clock: Clock) -> SampledEffect:
    """Estimate the effect of a configuration from some thousand URLs; their hashed keys make the sample random."""
    folder = root.collection(name)
    after_rules = compile_settings(after, folder.lists)
    include = after.scope.include or tuple(implied_scope(after.collection.seeds))
    rulebook = Rulebook(include, after.scope.exclude)
    until = clock.ticks_s() + SAMPLE_S
    known = queued = 0
    for cell in each_cell(folder):
        known, queued = known + cell.known, queued + cell.queued
    share = min(1.0, SAMPLE / max(1, known))
    seen = leave = not_again = 0
    matches = [0] * (len(include) + len(after.scope.exclude))
    for url, depth, found_by, state in _sample_urls(each_cell(folder), share, lambda: clock.ticks_s() < until):
        seen += 1
        is_wanted = after_rules.wants_link(url, depth, found_by)
        leave += state == STATE_QUEUED and not is_wanted
        not_again += state == STATE_DONE and not is_wanted
        for bounds, is_match in enumerate(rulebook.matches(url)):
            matches[bounds] += is_match
    scale = known / seen if seen else 0.0
    numbers = [round(number * scale) for number in (leave, not_again)]
    effect = ChangeEffect(known, queued, numbers[0], 0, numbers[1], is_sample=share < 1 or seen < known)
    return SampledEffect(effect, tuple(round(number * scale) for number in matches))


def _sample_urls(
    cells: Iterable[FrontierCell], share: float, has_time_left: Callable[[], bool]
) -> Iterator[tuple[str, int, int, int]]:
    """Yield a random share of all URLs, host by host, as long as there is time."""
    top = KEY_SPAN // 2
    # The lowest keys are as good a sample as any; keys begin at -2^63.
    below = min(top - 1, int(KEY_SPAN * share) - top)
    for cell in cells:
        for host in all_hosts(cell):
            if not has_time_left():
                return
            yield from urls_between(cell, host.host_id, host.name, -top, below)


# ---- done at once ---------------------------------------------------------------------------------------------------


def reconsider_now(root: Root, name: str, config: Config) -> None:
    """Judge all URLs of a collection now, as a crawl would at its start; the caller holds the root's lock."""
    compiled = compile_settings(config, root.collection(name).lists)
    for cell in each_cell(root.collection(name), read_only=False):
        while progress(cell, compiled.mark) < END:
            with cell.transaction():
                # One portion in each transaction.
                reconsider(cell, compiled.mark, compiled.may_fetch, lambda: False)
