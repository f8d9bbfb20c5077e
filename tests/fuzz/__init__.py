"""Fuzzing of whatever reads bytes of others: `scripts/fuzz`, guided by coverage, and a few seconds of it in the suite.

    targets/      one module for each reader: `fuzz_one(data)` fails if a promise of the reader is broken, `SEEDS` are
                  inputs to begin with
    pieces.py     texts and numbers out of bytes
    inputs/       inputs that once broke a promise, by target; the suite replays them
    engine.py     one target under atheris
    run.py        targets one after another, for as long as it is let
    tally.py      the CPU time of each target over all runs

Compiled modules are built anew for it, with AddressSanitizer, UndefinedBehaviorSanitizer and coverage (`scripts/fuzz`).
"""
