"""Results as blocks of text."""

from __future__ import annotations

import pytest

from teia.search.show.text_blocks import age, facet_value


def test_facets_have_languages_by_name_with_the_code_that_a_filter_takes() -> None:
    assert facet_value("lang", "pt") == "Portuguese (pt)"
    assert facet_value("lang", "xyz") == "xyz"
    assert facet_value("lang", "") == "unknown"
    assert facet_value("host", "pt") == "pt"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.0, "just now"),
        (-5.0, "just now"),
        (61.0, "1 minute ago"),
        (7_300.0, "2 hours ago"),
        (1e6, "11 days ago"),
        (4e7, "1 year ago"),
    ],
)
def test_ages_are_written_in_words(seconds: float, said: str) -> None:
    assert age(seconds) == said
