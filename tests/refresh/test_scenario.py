"""Worlds from files and made-up ones (P6)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from teia.errors import UsageError
from teia.refresh.model import DAY_S, Crawlers, RefreshWorld
from teia.refresh.scenario import draw_world, read_scenario

HEADER = "page,server,weight,rate_per_day\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "pages.csv"
    path.write_text(text, encoding="utf-8")
    return path


def drawn(seed: int = 1, **changes: object) -> RefreshWorld:
    usual: dict[str, object] = {"pages": 1000, "servers": 20, "horizon_s": DAY_S, "politeness_s": 15.0}
    return draw_world(np.random.default_rng(seed), **(usual | changes))  # type: ignore[arg-type]


def test_a_file_becomes_a_world(tmp_path: Path) -> None:
    header = "\ufeffserver,page,rate_per_day,weight,size_bytes,age_s\r\n"
    text = header + "x,a,1,3,100,5\r\n\r\ny,b,0,1,7,0\r\nx,c,inf,0,0,inf\r\n"
    scenario = read_scenario(written(tmp_path, text))
    world = scenario.world(horizon_s=10.0, politeness_s=1.0)
    assert scenario.names_of(world) == ["a", "c", "b"]
    assert (world.rate * DAY_S).tolist() == [1.0, np.inf, 0.0]
    assert world.weight.tolist() == [0.75, 0.0, 0.25]
    assert world.size_bytes.tolist() == [100.0, 0.0, 7.0]


def test_a_file_may_describe_crawlers_and_servers(tmp_path: Path) -> None:
    """P1: speeds of crawlers, speeds and delays of servers; what it does not describe has the given ones."""
    text = "#crawler,10\n#crawler, 2.5\n#server,y,5e5,60\n#server,x,1e6\n" + HEADER + "a,x,1,1\nb,y,1,1\nc,z,1,1\n"
    scenario = read_scenario(written(tmp_path, text))
    world = scenario.world(horizon_s=10.0, politeness_s=15.0, bytes_per_s=1234.0, crawlers=Crawlers(1, 1.0))
    assert world.crawlers.each_pages_per_s == (10.0, 2.5)
    assert world.bytes_per_s.tolist() == [1e6, 5e5, 1234.0]
    assert world.politeness_s.tolist() == [15.0, 60.0, 15.0]


def test_pages_that_are_numbers_have_these_as_ids(tmp_path: Path) -> None:
    scenario = read_scenario(written(tmp_path, HEADER + "10,x,1,1\n9,x,1,1\n"))
    world = scenario.world(horizon_s=10.0, politeness_s=1.0)
    assert world.page.tolist() == [9, 10]
    assert scenario.names_of(world) == ["9", "10"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1: the header is missing page, server, weight, rate_per_day"),
        ("page,server,weight\n", "line 1: the header is missing rate_per_day"),
        (HEADER.strip() + ",colour\n", "line 1: the header has colour"),
        (HEADER, "contains no pages"),
        (HEADER + "a,x,1\n", "line 2: 3 fields instead of 4"),
        (HEADER + "a,x,1,1\n\nb,x,1,fast\n", r"line 4: rate_per_day is 'fast', not a number >= 0$"),
        (HEADER + "a,x,-1,1\nb,x,nan,1\n", r"line 2: weight is '-1', .* \(and 1 more invalid rows\)"),
        (HEADER + "a,x,inf,1\n", "line 2: weight is 'inf'"),
        (HEADER + "a,x,1,1\na,y,1,1\n", "line 3: duplicate page a"),
        (HEADER + "a,,1,1\n", "line 2: missing name of the server"),
        (HEADER + ",x,1,1\n", "line 2: missing name of the page"),
        ("#crawler,0\n" + HEADER, "line 1: must be #crawler,PAGES_PER_S or #server"),
        ("#crawler,1\n#server,x\n" + HEADER, "line 2: must be #crawler"),
        ("#server,x,1\n#server,x,2\n" + HEADER + "a,x,1,1\n", "line 2: must be #crawler.*once for each name"),
        ("#robot,1\n" + HEADER, "line 1: must be #crawler"),
        ("#server,y,1\n" + HEADER + "a,x,1,1\n", "server y has no pages"),
        ("#crawler,1\n" + HEADER + "a,x,1\n", "line 3: 3 fields instead of 4"),
    ],
)
def test_a_broken_row_is_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_scenario(written(tmp_path, text))


def test_a_file_of_another_kind_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_scenario(tmp_path / "nowhere.csv")
    (tmp_path / "octets").write_bytes(b"page,\xff\xfe")
    with pytest.raises(UsageError, match="not a CSV file in UTF-8"):
        read_scenario(tmp_path / "octets")


def test_the_same_seed_makes_the_same_world() -> None:
    one, other, third = drawn(1), drawn(1), drawn(2)
    assert one.rate.tolist() == other.rate.tolist()
    assert one.rate.tolist() != third.rate.tolist()


@pytest.mark.parametrize(("theta", "largest"), [(0.0, 50), (1.0, 278), (2.0, 626)])
def test_pages_lie_on_servers_by_zipfs_law(theta: float, largest: int) -> None:
    per_server = drawn(theta=theta).pages_per_server
    assert per_server.sum() == 1000
    assert per_server.max() == largest


def test_rates_are_between_a_hundredth_and_one_in_their_unit() -> None:
    for law in ("uniform", "zipf:0.5", "zipf:1", "zipf:2"):
        per_hour = drawn(rates=law, rate_unit_s=3600.0, pages=20_000).rate * 3600
        assert per_hour.min() >= 0.01 * (1 - 1e-9)
        assert per_hour.max() <= 1 + 1e-9
    means = [float(drawn(rates=f"zipf:{a}", pages=20_000).rate.mean() * DAY_S) for a in (0, 1, 2)]
    assert means == pytest.approx([0.505, 0.99 / np.log(100), np.log(100) / 99], rel=0.02)


def test_weights_are_alike_or_by_rank() -> None:
    assert np.ptp(drawn().weight) == 0
    weights = np.sort(drawn(weights="zipf:1").weight)[::-1]
    assert weights[0] / weights[9] == pytest.approx(10.0)


@pytest.mark.parametrize("changes", [{"rates": "zipf"}, {"weights": "zipf:x"}, {"theta": -1.0}, {"pages": 0}])
def test_what_cannot_be_drawn_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        drawn(**changes)
