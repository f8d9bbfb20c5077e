"""What a person decided about single hosts: which rest longer or less, what they may cost, which are not asked now.

These are lists of the collection's settings (`courtesy.host_delays`, `agreed_delays`, `paused`, `limits.host_budgets`),
changed like any other (`teia set courtesy.paused+=www.example.org`), hold at once and over every restart, and stand in
teia.toml (C2, T5). A rest is made shorter for one reason only: somebody who speaks for the host agreed to it, and who
that was is part of the setting. What the host itself asks for (Crawl-delay, Retry-After) is kept all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from teia.config import Config, CourtesySettings, LimitSettings
from teia.errors import ConfigError

MAX_DELAY_S = 86_400.0
LEAST_AGREED_S = 0.05
MAX_BUDGET = 10**9
WHO_CHARS = (3, 200)
"""How long the name of who agreed to something is."""

PAUSED = "paused by an operator"
"""Why a host is left alone, as it is written down."""


def host_delays(texts: Sequence[str]) -> Mapping[str, float]:
    """Rests by host, from `HOST=SECONDS`; the last one said of a host holds."""
    found = {}
    for text in texts:
        host, _, seconds = text.rpartition("=")
        try:
            delay_s = float(seconds)
        except ValueError:
            delay_s = -1.0
        if not host.strip() or not 0 <= delay_s <= MAX_DELAY_S:
            allowed = f"must be HOST=SECONDS, 0 to {MAX_DELAY_S:,.0f}, like www.example.org=20"
            raise ConfigError(f"courtesy.host_delays = {text!r}: {allowed}")
        found[host.strip().lower()] = delay_s
    return found


def with_delay(texts: Sequence[str], host: str, delay_s: float | None) -> list[str]:
    """The same list with another rest of a host; None takes it out."""
    kept = [text for text in texts if text.rpartition("=")[0].strip().lower() != host]
    return kept if delay_s is None else [*kept, f"{host}={delay_s:g}"]


@dataclass(frozen=True, slots=True)
class Agreed:
    """A rest that a host's owner agreed to, and who that was."""

    delay_s: float
    who: str


@lru_cache(maxsize=16)
def agreements(texts: tuple[str, ...]) -> Mapping[str, Agreed]:
    """Agreed rests by host, from `HOST=SECONDS WHO`; the last one said of a host holds."""
    found = {}
    for text in texts:
        host, _, rest = text.partition("=")
        seconds, _, who = rest.strip().partition(" ")
        try:
            delay_s = float(seconds)
        except ValueError:
            delay_s = -1.0
        is_said = WHO_CHARS[0] <= len(who.strip()) <= WHO_CHARS[1]
        if not host.strip() or not LEAST_AGREED_S <= delay_s <= MAX_DELAY_S or not is_said:
            allowed = f"must be HOST=SECONDS WHO, at least {LEAST_AGREED_S:g}, like www.example.org=2 Ana Souza"
            raise ConfigError(f"courtesy.agreed_delays = {text!r}: {allowed}")
        found[host.strip().lower()] = Agreed(delay_s, who.strip())
    return found


def with_agreement(texts: Sequence[str], host: str, agreed: Agreed | None) -> list[str]:
    """The same list with another agreement about a host; None takes it out."""
    kept = [text for text in texts if text.partition("=")[0].strip().lower() != host]
    return kept if agreed is None else [*kept, f"{host}={agreed.delay_s:g} {agreed.who}"]


def delay_of(courtesy: CourtesySettings, host: str) -> float:
    """Our own delay before a host is asked again: everybody's, or less where that was agreed."""
    agreed = agreements(courtesy.agreed_delays).get(host)
    return courtesy.delay_s if agreed is None else min(courtesy.delay_s, agreed.delay_s)


@lru_cache(maxsize=16)
def host_budgets(texts: tuple[str, ...]) -> Mapping[str, int]:
    """Requests that may be made of a host, from `HOST=NUMBER`; the last one said of a host holds."""
    found = {}
    for text in texts:
        host, _, number = text.rpartition("=")
        plain = number.strip()
        if not host.strip() or not (plain.isascii() and plain.isdigit()) or not 1 <= int(plain) <= MAX_BUDGET:
            allowed = f"must be HOST=NUMBER, 1 to {MAX_BUDGET:,}, like www.example.org=500"
            raise ConfigError(f"limits.host_budgets = {text!r}: {allowed}")
        found[host.strip().lower()] = int(plain)
    return found


def with_budget(texts: Sequence[str], host: str, budget: int | None) -> list[str]:
    """The same list with another budget of a host; None takes it out."""
    kept = [text for text in texts if text.rpartition("=")[0].strip().lower() != host]
    return kept if budget is None else [*kept, f"{host}={budget}"]


def budget_of(limits: LimitSettings, host: str) -> int:
    """How many requests may be made of a host in all."""
    return host_budgets(limits.host_budgets).get(host, limits.pages_per_host)


def paused_hosts(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(text.strip().lower() for text in texts)


def courtesy_of_all(configs: Sequence[Config]) -> CourtesySettings:
    """The courtesy that collections have in common: the first one's, with every host's longest rest.

    So it is with rests that were agreed, and a collection without the agreement counts with its own delay: whoever
    agreed did so for one collection's requests, and nobody can tell at the server whose they are.
    """
    agreed: dict[str, Agreed] = {}
    for config in configs:
        for host, each in agreements(config.courtesy.agreed_delays).items():
            if host not in agreed or each.delay_s > agreed[host].delay_s:
                agreed[host] = each
    shorter = {host: max(delay_of(config.courtesy, host) for config in configs) for host in agreed}
    longest: dict[str, float] = {}
    for config in configs:
        for host, delay_s in host_delays(config.courtesy.host_delays).items():
            longest[host] = max(longest.get(host, 0.0), delay_s)
    courtesy = configs[0].courtesy
    return replace(
        courtesy,
        host_delays=tuple(f"{host}={delay_s:g}" for host, delay_s in longest.items()),
        agreed_delays=tuple(
            f"{host}={delay_s:g} {agreed[host].who}" for host, delay_s in shorter.items() if delay_s < courtesy.delay_s
        ),
    )
