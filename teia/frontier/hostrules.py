"""What a person decided about single hosts: which rest longer than the others, which are not asked now (C2, T5).

Both are lists of the collection's settings (`courtesy.host_delays`, `courtesy.paused`), changed like any other
(`teia set courtesy.paused+=www.example.org`), hold at once and over every restart, and stand in teia.toml. A rest is
never made shorter here: that is a matter of the whole collection's `courtesy.delay_s`, and of its owner's consent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from teia.config import Config, CourtesySettings
from teia.errors import ConfigError

MAX_DELAY_S = 86_400.0
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


def paused_hosts(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(text.strip().lower() for text in texts)


def courtesy_of_all(configs: Sequence[Config]) -> CourtesySettings:
    """The courtesy that collections have in common: the first one's, with every host's longest rest."""
    longest: dict[str, float] = {}
    for config in configs:
        for host, delay_s in host_delays(config.courtesy.host_delays).items():
            longest[host] = max(longest.get(host, 0.0), delay_s)
    delays = tuple(f"{host}={delay_s:g}" for host, delay_s in longest.items())
    return replace(configs[0].courtesy, host_delays=delays)
