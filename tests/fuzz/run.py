"""Targets under the fuzzer, one after another, with a ledger of the CPU time that each has had.

    python -m tests.fuzz.run [TARGET ...] [--minutes N] [--ledger]

Inputs that add coverage are kept in `.cache/fuzz/corpus/TARGET` and are the next run's beginning. An input that breaks
a promise, takes longer than SLOW_S or more than MAX_MIB of memory is left in `.cache/fuzz/found/TARGET`. When its cause
is mended it goes to `tests/fuzz/inputs/TARGET`, which the suite replays.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

from tests.fuzz.targets import COMPILED, PLAIN, load

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "fuzz"
LEDGER = CACHE / "ledger.jsonl"
SANITIZED = ROOT / "build" / "fuzz"
"""Where `scripts/fuzz` builds teia with sanitizers."""

SLOW_S = 10
"""Longest time for one input, on a machine that does other things too; instrumented code is some five times slower."""

MAX_MIB = 2_048
MAX_INPUT_BYTES = 4_096
_EXECUTED = re.compile(r"stat::number_of_executed_units:\s*(\d+)")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", choices=[*PLAIN, *COMPILED, []], metavar="TARGET")
    parser.add_argument("--minutes", type=float, default=1.0, help="time for each target")
    parser.add_argument("--ledger", action="store_true", help="print the CPU time of all targets so far")
    given = parser.parse_args()
    if given.ledger:
        print("\n".join(table()))
        return 0
    found = 0
    for target in given.targets or [*PLAIN, *COMPILED]:
        found += run(target, given.minutes * 60)
    return 1 if found else 0


def run(target: str, seconds: float) -> int:
    """Fuzz one target for a while, note its CPU time, and return how many inputs it has failed on."""
    corpus, broken = CACHE / "corpus" / target, CACHE / "found" / target
    for folder in (corpus, broken):
        folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(load(target)[1]):
        (corpus / f"seed-{number}").write_bytes(seed)
    before = set(broken.iterdir())
    options = [
        f"-max_total_time={max(1, round(seconds))}",
        f"-timeout={SLOW_S}",
        f"-rss_limit_mb={MAX_MIB}",
        f"-max_len={MAX_INPUT_BYTES}",
        f"-artifact_prefix={broken}/",
        "-print_final_stats=1",
        "-detect_leaks=0",
        "-reload=0",
        "-verbosity=0" if os.environ.get("CI") else "-verbosity=1",
    ]
    # Imports pick the sanitized build first; the rest of the environment stays as it is.
    path = [str(SANITIZED)] * (target in COMPILED) + [str(ROOT)]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONSAFEPATH": "1"} | _sanitizers(target)
    log = broken.parent / f"{target}.log"
    with log.open("w+b") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.engine", target, *options, str(corpus)],
            stdout=output, stderr=output, env=environ, cwd=ROOT,
        )  # fmt: skip
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        said = output.read().decode("utf-8", "replace")
    executed = _EXECUTED.search(said)
    new = sorted(set(broken.iterdir()) - before)
    entry = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "target": target,
        "cpu_s": round(used.ru_utime + used.ru_stime, 1),
        "inputs": int(executed[1]) if executed else 0,
        "found": [path.name for path in new],
        "status": process.returncode,
    }
    with LEDGER.open("a", encoding="utf-8") as file:
        print(json.dumps(entry), file=file)
    print(json.dumps(entry), flush=True)
    if process.returncode:
        print(said[-3_000:], file=sys.stderr)
    return max(len(new), int(process.returncode != 0))


def _sanitizers(target: str) -> dict[str, str]:
    if target not in COMPILED:
        return {}
    import atheris

    return {
        "LD_PRELOAD": str(Path(atheris.path()) / "asan_with_fuzzer.so"),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:handle_abort=1",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
    }


def table() -> list[str]:
    """Return the ledger as a table in Markdown: CPU time and inputs of each target."""
    seconds, inputs = defaultdict[str, float](float), defaultdict[str, int](int)
    dates = set()
    for line in LEDGER.read_text("utf-8").splitlines() if LEDGER.exists() else ():
        entry = json.loads(line)
        seconds[entry["target"]] += entry["cpu_s"]
        inputs[entry["target"]] += entry["inputs"]
        dates.add(entry["date"])
    rows = [f"| {name} | {seconds[name] / 60:.1f} | {inputs[name]:,} |" for name in sorted(seconds)]
    whole = f"| all | {sum(seconds.values()) / 60:.1f} | {sum(inputs.values()):,} |"
    return [
        "| target | CPU minutes | inputs |",
        "|---|---|---|",
        *rows,
        whole,
        "",
        f"dates: {', '.join(sorted(dates))}",
    ]


if __name__ == "__main__":
    sys.exit(main())
