"""The policies by name (P5, P9).

    psp.py       PSP as printed and centred, MP2, M-Wolf: counts, then a timetable
    optimum.py   intensities that are best in the long run: with politeness (edf), without it (cho)
    even.py      policies that ignore the value of visits: uniform, round-robin, proportional, F2's rateUpdate
    sampling.py  a few pages of each server, then the servers where most of them had changed
    value.py     the most valuable page now: by freshness (index), by what users miss (user-centric)

To add one: a class with `name`, `renew_s` and `plan`, and a place in POLICIES.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

from teia.errors import UsageError
from teia.refresh.policies.even import Proportional, RateUpdate, RoundRobin, Uniform
from teia.refresh.policies.optimum import Cho, PeriodEdf
from teia.refresh.policies.psp import MWolf, Psp
from teia.refresh.policies.sampling import Sampling
from teia.refresh.policies.value import MostValuable
from teia.refresh.policy import Policy

POLICIES: Final[dict[str, Policy]] = {
    policy.name: policy
    for policy in (
        Psp("psp", "printed"),
        Psp("psp-centred", "centred"),
        Psp("psp-aged", "centred", from_ages=True),
        Psp("mp2", "ideal"),
        MWolf(),
        Uniform(),
        Proportional(),
        Cho(),
        PeriodEdf(),
        MostValuable("index", "freshness"),
        RateUpdate(),
        RoundRobin(),
        Sampling(),
        MostValuable("user-centric", "divergence"),
    )
}


def find_policy(name: str) -> Policy:
    """Return the policy of this name; for an unknown name, raise UsageError with the nearest known name."""
    if name not in POLICIES:
        near = get_close_matches(name, POLICIES, n=1)
        listed = f"did you mean {near[0]}? Available" if near else "available"
        raise UsageError(f"unknown policy {name!r}; {listed}: {', '.join(POLICIES)}")
    return POLICIES[name]
