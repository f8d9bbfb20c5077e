"""The control port: the truth in JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from teia.clock import iso_utc
from teia.errors import LabError
from teia.lab.server.control import LabControl, write_truth
from teia.lab.world.exchange import WorldRequest
from teia.lab.world.spec import WorldSpec
from teia.lab.world.world import World

EPOCH_S = 1_772_366_400.0
DAY_S = 86_400.0


@pytest.fixture(scope="module")
def world() -> World:
    return World(WorldSpec.load(pages=200, hosts=5, time_factor=100), epoch_s=EPOCH_S, port=8800)


def ask(world: World, target: str, now_s: float = EPOCH_S) -> tuple[int, Any]:
    answer = LabControl(world).answer(WorldRequest("127.77.255.80", target), now_s)
    return answer.status, json.loads(answer.body)


def test_root_says_what_there_is(world: World) -> None:
    status, found = ask(world, "/")
    assert status == 200
    assert (found["hosts"], found["pages"], found["seeds"]) == (5, 200, world.seeds())
    assert found["epoch"] == iso_utc(EPOCH_S)


def test_now_is_given_on_the_wall_clock_and_in_the_world(world: World) -> None:
    status, found = ask(world, "/now", EPOCH_S + DAY_S)
    assert (status, found["now"]) == (200, iso_utc(EPOCH_S + DAY_S))
    assert found["world_days"] == pytest.approx(100)


def test_all_hosts_are_listed(world: World) -> None:
    status, found = ask(world, "/hosts")
    assert status == 200
    assert [host["host"] for host in found["hosts"]] == [host.name for host in world.hosts]
    assert sum(host["pages"] for host in found["hosts"]) == 200


def test_truth_of_a_page_grows_with_time(world: World) -> None:
    target = f"/truth?url={quote(world.seeds()[0], safe='')}"
    status, now = ask(world, target)
    assert (status, now["url"]) == (200, world.seeds()[0])
    assert {"url", "host", "versions", "links", "robots_allowed"} <= set(now)
    _, later = ask(world, f"{target}&until={quote(iso_utc(EPOCH_S + 10 * DAY_S))}")
    assert later["versions"][: len(now["versions"])] == now["versions"]
    assert len(later["versions"]) > len(now["versions"])


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/elsewhere", 404),
        ("/truth", 400),
        ("/truth?url=", 400),
        ("/truth?url=nonsense", 404),
        ("/truth?url=http%3A%2F%2Fno.test%2F", 404),
        ("/truth?url=x&until=yesterday", 400),
        ("/truth?" + "&".join(f"a{number}=1" for number in range(100)), 400),
        ("/truth?url=http://[", 404),
        ("/truth?url=%ff%00", 404),
    ],
)
def test_what_cannot_be_answered_says_why(world: World, target: str, status: int) -> None:
    got, found = ask(world, target)
    assert got == status
    assert found["error"]


def test_truth_file_has_a_line_for_every_page_it_tells_of(world: World, tmp_path: Path) -> None:
    count = write_truth(tmp_path / "truth.jsonl", world, EPOCH_S + DAY_S)
    lines = [json.loads(line) for line in (tmp_path / "truth.jsonl").read_text().splitlines()]
    assert len(lines) == count > 100
    for line in lines:
        assert {"url", "host", "versions", "links", "robots_allowed"} <= set(line)
        assert line["versions"] == sorted(line["versions"])
    assert world.seeds()[0] in {line["url"] for line in lines}


def test_truth_that_cannot_be_written_says_so(world: World, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="--truth"):
        write_truth(tmp_path / "no" / "truth", world, EPOCH_S)
