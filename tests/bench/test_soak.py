"""The judgement of a long run: what grows is told from what varies."""

from __future__ import annotations

import os
import random
import sys

import pytest

from bench.soak import SAMPLE_S, Sample, growth_of, processes_by_role, read_sample, slope_and_noise
from teia.lib.child_process import PIPE, ChildProcess
from teia.lib.entry_points import command_of
from tests.waiting import until

HOURS = 2.0


Points = list[tuple[float, float]]


def memory(of_hour: float, spread: float = 0.0) -> Points:
    """Two hours of a process whose memory grows by so much an hour, after a start in which caches filled."""
    chance = random.Random(7)
    times = [number * SAMPLE_S for number in range(int(HOURS * 3_600 / SAMPLE_S))]
    return [(at_s, 100 + min(at_s, 1_800) / 90 + of_hour * at_s / 3_600 + chance.gauss(0, spread)) for at_s in times]


@pytest.mark.parametrize(
    ("of_hour", "spread", "is_flat"),
    [(0.0, 0.0, True), (0.0, 3.0, True), (0.5, 0.0, True), (2.0, 0.0, False), (8.0, 2.0, False), (-5.0, 0.0, True)],
)
def test_memory_that_grows_by_more_than_noise_is_told(of_hour: float, spread: float, is_flat: bool) -> None:
    found = growth_of("crawl", "memory_mb", memory(of_hour, spread))
    assert found.is_flat is is_flat
    assert found.slope_per_hour == pytest.approx(of_hour, abs=0.5)
    assert found.quarters[0] < found.quarters[-1] or of_hour < 0, "what the start took is shown"


def test_one_descriptor_more_every_ten_minutes_is_told() -> None:
    assert not growth_of("crawl", "descriptors", [(at_s, 50 + at_s // 600) for at_s, _ in memory(0.0)]).is_flat
    assert growth_of("crawl", "threads", [(at_s, 4.0) for at_s, _ in memory(0.0)]).is_flat


def test_single_outliers_do_not_change_the_slope() -> None:
    points = [(float(x), 10.0 + x) for x in range(50)]
    points[10], points[40] = (10.0, 900.0), (40.0, -900.0)
    slope, noise = slope_and_noise(points)
    assert slope == pytest.approx(1.0)
    assert noise == pytest.approx(0.0, abs=1e-9)


def wait_for_input(arguments: list[str]) -> int:
    """Be a process that waits until its input is closed."""
    sys.stdin.read()
    return len(arguments)


def test_processes_are_found_with_what_they_have_started() -> None:
    process = ChildProcess(command_of(wait_for_input), stdin=PIPE)
    try:
        # `launch.py` becomes the interpreter of the function.
        until(lambda: process.pid in processes_by_role({"tests": os.getpid()}).get("tests: tests.bench.test_soak", []))
        until(lambda: read_sample([process.pid], 0.0).memory_mb > 1, "it has begun to take memory")
        taken = read_sample([process.pid], 1.0)
    finally:
        process.close_input()
        process.end(10.0)
    assert taken.descriptors >= 3
    assert taken.threads == 1
    assert read_sample([process.pid], 2.0) == Sample(2.0, 0.0, 0, 0), "it has ended"
