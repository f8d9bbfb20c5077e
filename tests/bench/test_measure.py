"""The cost of a command (bench/peers/measure.py)."""

import sys
from pathlib import Path

import pytest

from bench.peers.measure import SAMPLE_S, measure
from teia.errors import LabError

PYTHON = (sys.executable, "-I", "-S", "-c")


@pytest.mark.heavy
def test_the_end_of_a_command_is_noticed_when_it_comes_and_not_at_the_next_sample(tmp_path: Path) -> None:
    code = "import time; time.sleep(0.02); print(time.clock_gettime(time.CLOCK_MONOTONIC))"
    # Its own start and end take some milliseconds, of a busy machine some more: the best of several counts.
    shortest = min(measure((*PYTHON, code), {}, tmp_path, 10.0).seconds for _ in range(10))
    assert 0.02 <= shortest < SAMPLE_S


@pytest.mark.heavy
def test_the_cost_is_that_of_all_processes_of_the_command(tmp_path: Path) -> None:
    work = "import time\nwhile time.process_time() < 0.2: pass"
    both = f"import subprocess, sys; subprocess.run([*{PYTHON!r}, {work!r}], check=True); print('done')"
    cost = measure((*PYTHON, both), {}, tmp_path, 60.0)
    assert 0.2 <= cost.cpu_s < 2.0
    assert cost.peak_rss_bytes > 1 << 20
    assert cost.output_tail == "done\n"


@pytest.mark.heavy
def test_a_command_that_fails_or_takes_too_long_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="exit status 3: no\n"):
        measure((*PYTHON, "import sys; print('no'); sys.exit(3)"), {}, tmp_path, 60.0)
    with pytest.raises(LabError, match="exit status -9"):
        measure((*PYTHON, "import time; time.sleep(60)"), {}, tmp_path, 0.2)
