from __future__ import annotations

import json
import tomllib
from pathlib import Path

from teia.cli.config import as_records, as_toml, toml_value
from teia.config.load import load
from teia.config.sections import Config
from teia.config.tree import flatten, keys_of, read_tree

from .conftest import Teia


def test_json_has_every_setting_with_unit_description_and_origin(teia: Teia, tmp_path: Path) -> None:
    (tmp_path / "teia.toml").write_text('[collection]\nname = "diario"\n')
    done = teia("config", "--config", "teia.toml", "--json", environ={"TEIA_COURTESY_DELAY_S": "2"})
    assert done.returncode == 0
    assert done.stderr == ""
    result = json.loads(done.stdout.splitlines()[-1])
    assert set(result["settings"]) == set(keys_of(Config))
    assert result["settings"]["courtesy.delay_s"] == {
        "value": 2.0,
        "unit": "s",
        "meaning": "minimum delay between two requests to a server, from the last byte of a response",
        "origin": "TEIA_COURTESY_DELAY_S",
    }
    assert result["settings"]["collection.name"]["origin"] == "teia.toml"
    assert result["settings"]["limits.pages"]["origin"] == "default"


def test_plain_output_is_a_configuration_that_reads_back_the_same(teia: Teia) -> None:
    done = teia("config", environ={"TEIA_COLLECTION_SEEDS": 'http://a.test/,http://b.test/"é'})
    assert done.returncode == 0
    effective = load(None, {"TEIA_COLLECTION_SEEDS": 'http://a.test/,http://b.test/"é'})
    assert read_tree(Config, flatten(tomllib.loads(done.stdout))) == effective.config


def test_plain_output_is_as_toml() -> None:
    effective = load()
    assert read_tree(Config, flatten(tomllib.loads(as_toml(effective)))) == Config()
    assert as_records(effective)["commit.every_s"]["value"] == Config().commit.every_s


def test_values_are_written_as_toml_writes_them() -> None:
    for value in (True, 3, 0.5, 'a "quoted" é', ("x", "y"), ()):
        read = tomllib.loads(f"value = {toml_value(value)}")["value"]
        assert (tuple(read) if isinstance(value, tuple) else read) == value
