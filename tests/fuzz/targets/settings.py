"""Settings files: any text is a configuration or an error with a message, and what is written is read back."""

from __future__ import annotations

from contextlib import suppress

from teia.config.load import read_toml, to_toml
from teia.config.sections import Config
from teia.config.tree import flatten, from_text, keys_of, read_tree
from teia.errors import TeiaError
from tests.fuzz.pieces import Pieces, folder

KEYS = sorted(keys_of(Config))
SEEDS = (
    b"[collection]\nname = 'a'\nseeds = ['http://a.test/']\n[limits]\nbody_bytes = 5\n[courtesy]\ndelay_s = 1e3\n",
    b"collection.name = 1\n[[x]]\ny = 2026-01-02T03:04:05Z\n",
    b"[fetch]\nresolve = ['a.test=127.0.0.1:1']\nallow_nets = ['10.0.0.0/8']\n",
    b"\x05\xffnan",
)


def fuzz_one(data: bytes) -> None:
    path = folder() / "teia.toml"
    path.write_bytes(data)
    with suppress(TeiaError):
        _round_trip(read_tree(Config, flatten(read_toml(path))))
    pieces = Pieces(data)
    key, text = KEYS[pieces.number() % len(KEYS)], pieces.text()
    with suppress(TeiaError):
        _round_trip(read_tree(Config, {key: from_text(Config, key, text)}))


def _round_trip(config: Config) -> None:
    path = folder() / "again.toml"
    path.write_text(to_toml(config), "utf-8")
    assert read_tree(Config, flatten(read_toml(path))) == config, "settings are others when they are written"
