"""The order of files: the longest first."""

from __future__ import annotations

from collections import Counter

import pytest

from tests import durations
from tests.conftest import ROOT


def test_every_file_that_is_known_to_take_long_is_there() -> None:
    """If one was moved, `scripts/test --write-durations` writes them anew; so does an editor."""
    assert len(durations.known()) > 20
    assert [path for path in durations.known() if not (ROOT / path).is_file()] == []


def test_files_that_take_long_are_written_longest_first() -> None:
    seconds = Counter({"tests/a.py": 7.4, "tests/b.py": 90.0, "tests/c.py": durations.LEAST_S - 0.1})
    assert durations.written(seconds) == "90 tests/b.py\n7 tests/a.py\n"


def test_what_takes_longest_comes_first(request: pytest.FixtureRequest) -> None:
    took = [durations.known().get(item.location[0], 0.0) for item in request.session.items]
    assert took == sorted(took, reverse=True)
