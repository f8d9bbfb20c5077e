"""Numbers, sizes and durations as people write them."""

from __future__ import annotations

import pytest

from teia.web.language.numbers import ENGLISH


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "0 s"), (0.05, "0.05 s"), (0.4, "0.4 s"), (0.999, "1.0 s"), (1, "1 s"), (5.25, "5.2 s")]
)
def test_a_delay_below_a_second_is_not_rounded_to_another(seconds: float, shown: str) -> None:
    """0.05 s was shown as 0.1 s beside a time that had been computed with 0.05 s."""
    assert ENGLISH.span(seconds) == shown
