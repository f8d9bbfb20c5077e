"""The time until all URLs that wait now were visited once, host by host.

New URLs and known pages take turns (keep_fresh.py `interleave`): known pages have at most `refresh.share` of a host's
requests, and only those that are due. A plan gives N pages intervals that fill that share: N x request_s / share on
average. The first plan of a crawl that is started with other settings does not know yet that URLs wait, so it uses all
requests. New pages make the intervals longer, with every new plan. So the requests of each host are made one after the
other: the page that was not requested for longest is due if that was as long ago as the mean interval of the last plan.
In a collection that is not kept fresh, every request is for a new URL.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from teia.config.sections import RefreshSettings
from teia.crawler.keep_fresh.keep_fresh import NEWS_AT_LEAST, NEWS_SHARE
from teia.lab.whatif.past import Past
from teia.refresh.rates import Floats

MAX_REQUESTS = 20_000
"""Requests of a host that are made one by one; the URLs that are left then take as long on average."""

LEAST_SHARE = 0.01


class FirstVisits(NamedTuple):
    """The time until the last of a host's waiting URLs is visited, and the visits of known pages until then."""

    seconds: float
    known: float


def first_visits(past: Past, request_s: Floats, settings: RefreshSettings) -> dict[int, FirstVisits]:
    """Return the first visits of the URLs that wait, by the number of the host, where there are any."""
    found: dict[int, FirstVisits] = {}
    for number, host in enumerate(past.hosts):
        if host.waiting and not host.is_parked:
            columns = [part.columns for part in past.parts if part.host == number]
            known_s = [np.maximum(each.requested_s, each.fresh_s) - past.now_s for each in columns]
            known = deque(np.sort(np.concatenate([*known_s, np.zeros(0)])).tolist())
            found[number] = _visit_all(host.waiting, float(request_s[number]), settings, known)
    return found


def _visit_all(waiting: int, request_s: float, settings: RefreshSettings, known: deque[float]) -> FirstVisits:
    """Make requests until the last waiting URL is visited; `known` are the last requests of known pages."""
    left, share, plan = waiting, settings.share if settings.keep else 0.0, _Plan(0, 0.0, len(known) * request_s)
    for number in range(MAX_REQUESTS):
        now_s = (number + 1) * request_s
        if plan.is_old(number, now_s, len(known), settings.replan_s):
            plan = _Plan(number, now_s, len(known) * request_s / max(share, LEAST_SHARE))
        is_known_turn = int((number + 1) * share) > int(number * share)
        if is_known_turn and known and now_s - known[0] >= plan.interval_s:
            known.popleft()
        else:
            left -= 1
            if not left:
                return FirstVisits(now_s, number + 1 - waiting)
        known.append(now_s)
    requests = MAX_REQUESTS * waiting / (waiting - left)
    return FirstVisits(requests * request_s, requests - waiting)


class _Plan(NamedTuple):
    """The mean interval of known pages by a plan, the number of the request that it came before, and its time."""

    number: int
    made_s: float
    interval_s: float

    def is_old(self, number: int, now_s: float, pages: int, replan_s: float) -> bool:
        news = number - self.number
        return news >= max(NEWS_AT_LEAST, NEWS_SHARE * pages) or (news > 0 and now_s - self.made_s >= replan_s)
