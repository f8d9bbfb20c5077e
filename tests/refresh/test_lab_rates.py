"""The whole chain on the lab's pages: texts compared through the mask, histories, rates; against the world's truth."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from teia.lab.world.change import POISSON
from teia.lab.world.url_kinds import UrlKind
from teia.lab.world.world import World
from teia.parse.parse import parse_document
from teia.refresh import priors, rates
from teia.refresh.history import DAY_S, History, ObservedAnswer, compare, decode_columns
from teia.refresh.mask import HostMask, PageMask, check_cosmetic, make_sketch
from tests.lab.worlds import EPOCH_S, fetch, make_world, url_of

DAYS = 60
COSMETIC = 0.3


class Visited(NamedTuple):
    """A page after its visits; the rate is the true one, of meaningful changes alone."""

    history: History
    host: int
    process: int
    rate_per_day: float


def visited(world: World, seed: int, mean_days: float) -> list[Visited]:
    """Visit every page at irregular intervals."""
    rng = np.random.default_rng(seed)
    found = []
    for host in world.hosts:
        space, of_host = world.spaces[host.index], HostMask()
        for slot in (each for each in range(host.size) if space.kind(each) is UrlKind.PAGE):
            history, mask, before = History.start(EPOCH_S), PageMask(), None
            days = 0.0
            while days < DAYS:
                now_s = EPOCH_S + days * DAY_S
                url = url_of(world, space, slot)
                answer = fetch(world, url, now_s)
                page = parse_document(url, b"HTTP/1.1 200 OK\r\n" + answer.headers + b"\r\n", answer.body).page
                now = ObservedAnswer(200, bytes.fromhex(page.digest), bytes.fromhex(page.text_digest), page.simhash)
                sketch = make_sketch(page.text)
                if before is None:
                    mask.sketch = sketch
                else:
                    saw = compare(before, now, lambda: check_cosmetic(mask, of_host, slot, sketch))  # noqa: B023  # called now
                    history.observe(saw, now_s, half_life_s=float("inf"))
                before = now
                days += mean_days * float(np.exp(rng.uniform(np.log(0.4), np.log(2.0))))
            change_process = world.changes.change_process(host.content, slot)
            found.append(
                Visited(history, host.index, change_process.process, change_process.rate_per_day * (1 - COSMETIC))
            )
    return found


@pytest.mark.slow
def test_rates_learnt_from_the_labs_pages_are_those_of_its_meaningful_changes() -> None:
    """Pages of Wolf's mix (P7), three of ten changes cosmetic; Poisson pages by all of them and by the median.

    Without the mask the estimates would be 1 / 0.7 of the truth. Of regular pages they are too high by their nature:
    that no interval shorter than the period ever has two changes is nothing the model knows (docs/rates.md).
    """
    world = make_world(pages=240, hosts=6, seed=31)
    assert world.spec.changes.cosmetic == COSMETIC
    pages = visited(world, 1, 1.5)
    columns = decode_columns([page.history.encode() for page in pages])
    host = np.array([page.host for page in pages])
    estimated = rates.estimate(columns, priors.learn_priors(columns, host, host)).mean * DAY_S
    true_rate = np.array([page.rate_per_day for page in pages])
    poisson = np.array([page.process == POISSON for page in pages])
    assert poisson.sum() > 100
    assert estimated[poisson].sum() == pytest.approx(true_rate[poisson].sum(), rel=0.12)
    assert np.median(estimated[poisson] / true_rate[poisson]) == pytest.approx(1.0, abs=0.15)
