"""`python -m bench.scale`: sums that must hold, and the figures of docs/scale.md."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bench.scale import RESULTS, Hosts, Machine, fails_at, place, plan, read_costs, simulate
from tests.conventions.tree import ROOT


def test_hosts_and_slots_have_all_pages() -> None:
    hosts = Hosts.by_zipf(1e8)
    assert float(hosts.pages @ hosts.count) == pytest.approx(1e8)
    assert hosts.pages[0] / hosts.pages[1] == pytest.approx(2.0, rel=0.02)
    pages, visits = place(hosts, 40.0, 5.0, np.random.default_rng(1))
    assert pages.sum() == pytest.approx(1e8, rel=0.01)
    # Hosts that allow fewer visits than their pages would need have only those, and the others get the rest.
    assert visits.sum() == pytest.approx(40.0, rel=0.01)
    largest = pages.argmax()
    assert pages[largest] / pages.sum() > 0.05 > 2 * visits[largest] / visits.sum()


def test_delays_cost_freshness_where_hosts_are_large() -> None:
    small, large = (plan(Hosts.by_zipf(pages), pages / (30 * 86_400), 5.0) for pages in (1e5, 1e9))
    assert small["freshness_polite"] == pytest.approx(small["freshness_without_delays"], abs=1e-4)
    assert large["freshness_polite"] < large["freshness_without_delays"] - 0.03
    assert large["visits_per_s_polite"] == pytest.approx(1e9 / (30 * 86_400), rel=1e-3)


def test_a_limit_is_reached_where_its_use_is_one() -> None:
    found = fails_at(lambda pages: {"use": {"late": pages / 3e9, "early": (pages / 2e6) ** 2, "never": 1e-20 * pages}})
    assert list(found) == ["early", "late"]
    assert list(found.values()) == pytest.approx([2e6, 3e9])


def test_the_document_has_the_saved_figures() -> None:
    saved = json.loads((RESULTS / "scale.json").read_text(encoding="utf-8"))
    told = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    for name, pages in saved["fails_at"].items():
        assert any(name in line and f"{pages:.1e}" in line for line in told.replace(" of NATS", "").splitlines()), name
    last = saved["rows"][-1]
    for name in ("disk", "search"):
        assert f"**{last['machines'][name]:.2f}**" in told
    assert f"need {last['nodes']} machines" in told
    of_commits = last["use"]["commits through one stream"]
    assert f"| {of_commits:.1f} times |" in told
    assert f"{of_commits * saved['costs']['batches_per_s']:,.0f} at 10^10" in told
    again = simulate(1e10, read_costs(), Machine(), 30.0, 5.0, seed=1)
    assert set(again["use"]) == set(saved["fails_at"])
    for part in ("machines", "use"):
        assert again.pop(part) == pytest.approx(last.pop(part), rel=0.01), (
            "python -m bench.scale --write writes it anew"
        )
    assert again == pytest.approx(last, rel=0.01)
