"""Change rate of a page, and the probability that its capture is still current, from its visits.

A page's own visits are few, so the rate starts from a prior of the other pages of its host, those of its kind foremost
(refresh/priors.py). Nothing is known of a page that was never revisited.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from teia.crawler.keep_fresh.observe import decode_errors
from teia.frontier.cell import histories
from teia.frontier.cell.cell import FrontierCell
from teia.refresh.history import DAY_S, decode_columns
from teia.refresh.priors import learn_priors, page_type
from teia.refresh.rates import estimate, fresh_probability_of
from teia.refresh.trust import Trust
from teia.urls import site_of, slot_of

MAX_PEERS = 1_000
MIN_PEERS = 5
INTERVAL = 0.9


@dataclass(frozen=True, slots=True)
class PageFreshness:
    """A page's change rate with its 90% interval, and the probability that the capture is fresh.

    `fresh_probability` is averaged over the possible rates.
    """

    rate_per_day: float
    low_per_day: float
    high_per_day: float
    fresh_probability: float


def freshness_of(
    frontier: FrontierCell, host: str, host_id: int, key: int, now_s: float, most_peers: int = MAX_PEERS
) -> PageFreshness | None:
    """Return the freshness of one page; None if it was not revisited yet."""
    slot = slot_of(site_of(host))
    peers = list(histories.peers(frontier, slot, host_id, key, most_peers))
    if not peers:
        return None
    kinds: dict[str, int] = {}
    types = [page_type(peer.tail.removeprefix("s"), peer.depth, peer.media_type) for peer in peers]
    kind = np.array([kinds.setdefault(each, len(kinds)) for each in types], dtype=np.int64)
    with decode_errors(frontier):
        columns = decode_columns([peer.record for peer in peers])
        is_trusted = Trust.decode(histories.host_trust(frontier, slot, host_id)[0]).dates.is_trusted
    trusted = np.full(len(peers), is_trusted)
    prior = learn_priors(columns, np.zeros(len(peers), dtype=np.int64), kind, trusted)
    found = estimate(columns, prior, trusted)
    low, high = found.interval(INTERVAL)
    fresh = fresh_probability_of(found, now_s - columns.visited_s)
    # Row 0 is the page itself; the others are its peers.
    of_page = (found.mean[0] * DAY_S, low[0] * DAY_S, high[0] * DAY_S, fresh[0])
    return PageFreshness(*map(float, of_page))


def rate_of_peers(frontier: FrontierCell, host: str, host_id: int, key: int) -> float | None:
    """Return the changes per day of a host's other pages that were revisited; None if too few were."""
    others = histories.other_records(frontier, slot_of(site_of(host)), host_id, key, MAX_PEERS)
    if len(others) < MIN_PEERS:
        return None
    with decode_errors(frontier):
        columns = decode_columns(others)
    alike = np.zeros(len(others), dtype=np.int64)
    found = estimate(columns, learn_priors(columns, alike, alike))
    return float(np.median(found.mean) * DAY_S)
