"""Inputs that once broke a promise are replayed, and some new ones are tried; `scripts/fuzz` tries millions."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .tally import Sum, Tally
from .targets import COMPILED, PLAIN, load

HERE = Path(__file__).parent
INPUTS = sorted((HERE / "inputs").glob("*/*"))
TARGETS = (*PLAIN, *COMPILED)


def test_every_module_is_a_target_and_every_folder_of_inputs_has_one() -> None:
    assert {path.stem for path in (HERE / "targets").glob("[!_]*.py")} == set(TARGETS)
    assert {path.parent.name for path in INPUTS} <= set(TARGETS)


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_once_broke_a_promise_does_not_break_it_again(path: Path) -> None:
    load(path.parent.name)[0](path.read_bytes())


@st.composite
def mutated(draw: st.DrawFn, seeds: tuple[bytes, ...]) -> bytes:
    """Inputs to begin with, of which parts are replaced, left out, doubled or joined."""
    data = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 20)))
        new = draw(st.one_of(st.binary(max_size=6), st.sampled_from(seeds), st.just(data[start:end] * 2)))
        data = data[:start] + new + data[end:]
    return data


@pytest.mark.parametrize("target", TARGETS)
def test_promises_hold_for_new_inputs(target: str) -> None:
    fuzz_one, seeds = load(target)
    for seed in (*seeds, b"", b"\0", b"\xff" * 3):
        fuzz_one(seed)

    @settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(mutated((*seeds, b"")))
    def hold(data: bytes) -> None:
        fuzz_one(data)

    hold()


def test_runs_add_up_in_the_tally(tmp_path: Path) -> None:
    path = tmp_path / "fuzz.json"
    for cpu_s in (30.0, 90.04):
        tally = Tally.read(path)
        tally.add("query", cpu_s, inputs=1_000, found=1)
        tally.write(path)
    tally = Tally.read(path)
    assert tally.targets == {"query": Sum(120.0, 2_000, 2)}
    assert tally.table()[2:4] == ["| query | 2.0 | 2,000 | 2 |", "| all | 2.0 | 2,000 | 2 |"]


def test_the_tally_that_is_stored_names_targets_that_there_are() -> None:
    assert set(Tally.read().targets) <= set(TARGETS)
