"""The settings that a search reads from a collection's file."""

from __future__ import annotations

from pathlib import Path

import pytest

from teia.collections.stored_settings import SearchSettings, search_settings
from teia.config.sections import IndexSettings
from teia.errors import ConfigError
from teia.store.root import Root, open_root


def stored(folder: Path, text: str) -> Root:
    root = open_root(folder, create=True)
    root.create_collection("main", text, 1)
    return root


def test_the_defaults_are_those_of_the_section(tmp_path: Path) -> None:
    known = IndexSettings()
    assert search_settings(stored(tmp_path, ""), "main") == (known.semantics, known.cached_answers)


def test_values_of_the_file_are_read_whatever_other_sections_hold(tmp_path: Path) -> None:
    text = "[index]\nsemantics = false\ncached_answers = 7\n[courtesy]\nno_such_setting = 1\n"
    assert search_settings(stored(tmp_path, text), "main") == SearchSettings(semantics=False, cached_answers=7)


@pytest.mark.parametrize(
    "line",
    ["semantics = 1", "cached_answers = true", "cached_answers = -1", "cached_answers = 100001", "semantics = [", "="],
)
def test_a_wrong_value_is_an_error_that_names_the_file(tmp_path: Path, line: str) -> None:
    with pytest.raises(ConfigError, match=r"index|teia\.toml"):
        search_settings(stored(tmp_path, f"[index]\n{line}\n"), "main")


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    root = stored(tmp_path, "")
    root.collection("main").config.unlink()
    with pytest.raises(ConfigError, match="file not found"):
        search_settings(root, "main")
