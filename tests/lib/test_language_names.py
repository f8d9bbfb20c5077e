"""Languages are shown by name, and found by it."""

from __future__ import annotations

from teia.index.languages import CODES
from teia.lib.language_names import LANGUAGE_NAMES, language_name
from teia.parse.text.language import _LATIN


def test_every_language_that_a_page_can_have_has_a_name_in_both_languages() -> None:
    assert not {*CODES, *_LATIN} - LANGUAGE_NAMES.keys()
    assert all(len(names) == 2 and all(names) for names in LANGUAGE_NAMES.values())
    for position in (0, 1):
        assert len({names[position] for names in LANGUAGE_NAMES.values()}) == len(LANGUAGE_NAMES)


def test_an_unknown_language_is_its_code() -> None:
    assert language_name("gl") == "Galician"
    assert language_name("gl", is_portuguese=True) == "Galego"
    assert language_name("xyz") == "xyz"
