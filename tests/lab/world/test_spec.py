"""A spec refuses what makes no sense, in one line that says what would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from teia.config.tree import keys_of
from teia.errors import ConfigError
from teia.lab.world.spec import WorldSpec
from teia.lab.world.world import World

ROOT = Path(__file__).resolve().parents[3]


def test_overrides_win_over_the_file_and_none_is_not_given(tmp_path: Path) -> None:
    file = tmp_path / "world.toml"
    file.write_text("seed = 9\npages = 50\n[errors]\nscale = 0\n")
    spec = WorldSpec.load(file, seed=3, hosts=None, **{"links.inside": 2})
    assert (spec.seed, spec.pages, spec.hosts, spec.errors.scale, spec.links.inside) == (3, 50, 0, 0.0, 2)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"pagse": 3}, "did you mean 'pages'"),
        ({"errors.scales": 1}, "did you mean 'errors.scale'"),
        ({"pages": 0}, "at least 1"),
        ({"pages": 3, "hosts": 4}, "every host has a home page"),
        ({"sites.gzip": 1.5}, "at most 1"),
        ({"sitemaps.honest": 0.9, "sitemaps.bare": 0.2}, "must be at most 1"),
        ({"feeds.rss": 0.9, "feeds.atom": 0.2}, "must be at most 1"),
        ({"validators.honest": 1.0}, "must be at most 1"),
        ({"changes.poisson": 0.0, "changes.pareto": 0.0, "changes.regular": 0.0}, "must be above 0"),
        ({"changes.slowest": 2.0}, "at most changes.fastest"),
        ({"changes.rates": "gauss"}, "uniform"),
        ({"regions.names": []}, "at least one region"),
        ({"regions.latency_s": [[0.1, 0.2]]}, "1 rows of 1"),
        ({"regions.hosted": [0.5, 0.5]}, "1 shares that add up to 1"),
        ({"regions.hosted": [0.5]}, "add up to 1"),
        ({"regions.clients": ["127.0.0.1=there"]}, "must look like"),
        ({"regions.clients": ["127.0.0.1/8=here"]}, "must look like"),
        ({"regions.clients": ["here"]}, "must look like"),
    ],
)
def test_wrong_values_are_refused_with_what_is_allowed(values: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        WorldSpec.from_values(values)
    assert "\n" not in str(caught.value)


def test_hosts_follow_from_pages_where_not_given() -> None:
    assert WorldSpec.from_values({"pages": 1_000}).host_count == 10
    assert WorldSpec.from_values({"pages": 20}).host_count == 1


@pytest.mark.parametrize("pages", [1, 2, 3, 8, 9, 10, 50])
def test_even_the_smallest_world_can_be_made(pages: int) -> None:
    for hosts in {1, pages}:
        world = World(WorldSpec.from_values({"pages": pages, "hosts": hosts}), epoch_s=0.0)
        assert sum(host.size for host in world.hosts) == pages


def test_every_key_is_documented() -> None:
    text = (ROOT / "docs" / "lab.md").read_text()
    for key in keys_of(WorldSpec):
        section, _, name = key.rpartition(".")
        heading = f"### [{section}]" if section else "### The whole"
        assert heading in text, f"docs/lab.md has no heading for {section}"
        table = text.partition(heading)[2].partition("\n### ")[0]
        assert f"| `{name}` |" in table, f"docs/lab.md does not explain {key}"


def test_the_example_is_a_world() -> None:
    spec = WorldSpec.load(ROOT / "examples" / "world.toml")
    assert World(spec, epoch_s=0.0).seeds()
