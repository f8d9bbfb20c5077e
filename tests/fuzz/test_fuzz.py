"""Inputs that once broke a promise are replayed, and some new ones are tried; `scripts/fuzz` tries millions."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .run import table
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


def test_the_ledger_is_a_table() -> None:
    assert table()[:2] == ["| target | CPU minutes | inputs |", "|---|---|---|"]
