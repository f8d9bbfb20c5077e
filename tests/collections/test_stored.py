"""Which collection a command means, and where its settings come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from teia.collections.stored import choose, configure, configure_all, saved
from teia.errors import UsageError
from teia.store.root import open_root

SEED = {"collection.seeds": ["http://a.test/"]}


def test_new_collection_keeps_the_settings_it_was_made_with(tmp_path: Path) -> None:
    root = open_root(tmp_path / "d", create=True)
    made = configure(root, None, None, {}, {**SEED, "courtesy.delay_s": 2.5, "collection.cells": 3})
    assert made.config.collection.name == "main"
    assert saved(root, "main").config == made.config
    assert len(root.collection("main").cells()) == 3


def test_flags_of_a_later_run_hold_for_that_run_alone(tmp_path: Path) -> None:
    root = open_root(tmp_path / "d", create=True)
    configure(root, "n", None, {}, SEED)
    assert configure(root, "n", None, {}, {"courtesy.delay_s": 9.0}).config.courtesy.delay_s == 9.0
    assert saved(root, "n").config.courtesy.delay_s == 5.0


def test_collection_without_a_seed_is_refused_and_not_made(tmp_path: Path) -> None:
    root = open_root(tmp_path / "d", create=True)
    with pytest.raises(UsageError, match="needs at least one SEED"):
        configure(root, None, None, {}, {})
    assert root.collections() == ()


def test_file_for_a_collection_that_exists_is_refused(tmp_path: Path) -> None:
    root = open_root(tmp_path / "d", create=True)
    file = tmp_path / "c.toml"
    file.write_text('[collection]\nname = "x"\nseeds = ["http://a.test/"]\n')
    assert configure(root, None, file, {}, {}).config.collection.name == "x"
    with pytest.raises(UsageError, match="already exists with its own settings"):
        configure(root, None, file, {}, {})


def test_several_collections_run_together_unless_one_is_named(tmp_path: Path) -> None:
    root = open_root(tmp_path / "d", create=True)
    for name in ("one", "two"):
        configure(root, name, None, {}, SEED)
    assert [each.collection.name for each in configure_all(root, None, None, {}, {})] == ["one", "two"]
    assert [each.collection.name for each in configure_all(root, "two", None, {}, {})] == ["two"]
    with pytest.raises(UsageError, match="contains one, two; choose one with --collection"):
        choose(root, None)
    with pytest.raises(UsageError, match="there is no collection 'three'"):
        choose(root, "three")
