"""One target under atheris: `python -m tests.fuzz.engine TARGET [options of libFuzzer] CORPUS`. It ends by itself."""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["teia", "protego"], exclude=["teia.lab"], enable_loader_override=False):
    from tests.fuzz.targets import load

    fuzz_one, _ = load(sys.argv[1])

if __name__ == "__main__":
    atheris.Setup([sys.argv[0], *sys.argv[2:]], fuzz_one)
    atheris.Fuzz()
