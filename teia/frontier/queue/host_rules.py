"""Rules an operator set for single hosts: longer or shorter delays, request budgets, pauses.

These are lists in the collection's settings (`courtesy.host_delays`, `agreed_delays`, `paused`,
`limits.host_budgets`). They are changed like any other setting (`teia set courtesy.paused+=www.example.org`), take
effect at once, survive every restart, and are written to teia.toml (C2, T5).

A delay is made shorter for one reason only: a person who speaks for the host agreed to it. That person's name is
part of the setting. The delays that the host itself requests (Crawl-delay, Retry-After) are respected all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from teia.config.sections import Config, CourtesySettings, LimitSettings
from teia.errors import WrongValue
from teia.lib.message import Message

MAX_DELAY_S = 86_400.0
MIN_AGREED_S = 0.05
MAX_BUDGET = 10**9
WHO_CHARS = (3, 200)
"""Least and greatest length of the name of the person who agreed to a delay."""

PAUSED = Message("paused by an operator")
"""Reason recorded for a host that an operator paused."""


def host_delays(texts: Sequence[str]) -> Mapping[str, float]:
    """Return the delay of each host, parsed from `HOST=SECONDS`; the last entry of a host wins."""
    found = {}
    for text in texts:
        host, _, seconds = text.rpartition("=")
        try:
            delay_s = float(seconds)
        except ValueError:
            # Refused below, with the text that the user gave.
            delay_s = -1.0
        if not host.strip() or not 0 <= delay_s <= MAX_DELAY_S:
            allowed = f"must be HOST=SECONDS, 0 to {MAX_DELAY_S:,.0f}, such as www.example.org=20"
            raise WrongValue("courtesy.host_delays", text, allowed)
        found[host.strip().lower()] = delay_s
    return found


def with_delay(texts: Sequence[str], host: str, delay_s: float | None) -> list[str]:
    """Return the list with the delay of one host replaced; None removes it."""
    others = [text for text in texts if text.rpartition("=")[0].strip().lower() != host]
    return others if delay_s is None else [*others, f"{host}={delay_s:g}"]


@dataclass(frozen=True, slots=True)
class AgreedDelay:
    """A shorter delay that a host's owner agreed to, and the name of that person."""

    delay_s: float
    who: str


@lru_cache(maxsize=16)
def agreements(texts: tuple[str, ...]) -> Mapping[str, AgreedDelay]:
    """Return the agreed delay of each host, parsed from `HOST=SECONDS WHO`; the last entry of a host wins."""
    found = {}
    for text in texts:
        host, _, rest = text.partition("=")
        seconds, _, who = rest.strip().partition(" ")
        try:
            delay_s = float(seconds)
        except ValueError:
            delay_s = -1.0
        is_named = WHO_CHARS[0] <= len(who.strip()) <= WHO_CHARS[1]
        if not host.strip() or not MIN_AGREED_S <= delay_s <= MAX_DELAY_S or not is_named:
            allowed = f"must be HOST=SECONDS NAME, at least {MIN_AGREED_S:g}, such as www.example.org=2 Ana Souza"
            raise WrongValue("courtesy.agreed_delays", text, allowed)
        found[host.strip().lower()] = AgreedDelay(delay_s, who.strip())
    return found


def with_agreement(texts: Sequence[str], host: str, agreed: AgreedDelay | None) -> list[str]:
    """Return the list with the agreement about one host replaced; None removes it."""
    others = [text for text in texts if text.partition("=")[0].strip().lower() != host]
    return others if agreed is None else [*others, f"{host}={agreed.delay_s:g} {agreed.who}"]


def delay_of(courtesy: CourtesySettings, host: str, *, is_small: bool = False) -> float:
    """Return our own delay for a host: the general one, longer if it is small, or the agreed one if that is shorter."""
    agreed = agreements(courtesy.agreed_delays).get(host)
    if agreed is not None:
        return min(courtesy.delay_s, agreed.delay_s)
    return courtesy.delay_s * (courtesy.small_site_factor if is_small else 1.0)


@lru_cache(maxsize=16)
def host_budgets(texts: tuple[str, ...]) -> Mapping[str, int]:
    """Return the request budget of each host, parsed from `HOST=NUMBER`; the last entry of a host wins."""
    found = {}
    for text in texts:
        host, _, number = text.rpartition("=")
        plain = number.strip()
        # `isdigit` alone is true of `²`, which `int` refuses.
        if not host.strip() or not (plain.isascii() and plain.isdigit()) or not 1 <= int(plain) <= MAX_BUDGET:
            allowed = f"must be HOST=NUMBER, 1 to {MAX_BUDGET:,}, such as www.example.org=500"
            raise WrongValue("limits.host_budgets", text, allowed)
        found[host.strip().lower()] = int(plain)
    return found


def with_budget(texts: Sequence[str], host: str, budget: int | None) -> list[str]:
    """Return the list with the budget of one host replaced; None removes it."""
    others = [text for text in texts if text.rpartition("=")[0].strip().lower() != host]
    return others if budget is None else [*others, f"{host}={budget}"]


def budget_of(limits: LimitSettings, host: str) -> int:
    """Return the total number of requests allowed to a host."""
    return host_budgets(limits.host_budgets).get(host, limits.pages_per_host)


def paused_hosts(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(text.strip().lower() for text in texts)


def merge_courtesy(configs: Sequence[Config]) -> CourtesySettings:
    """Merge the courtesy settings of several collections: the first one's, with the longest delay of every host.

    Agreed delays are merged the same way; a collection without the agreement counts with its own delay. The owner
    agreed to the requests of one collection, and the server cannot tell which collection a request belongs to.
    """
    agreed: dict[str, AgreedDelay] = {}
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
        # An agreement that makes no delay shorter is left out.
        agreed_delays=tuple(
            f"{host}={delay_s:g} {agreed[host].who}" for host, delay_s in shorter.items() if delay_s < courtesy.delay_s
        ),
    )
