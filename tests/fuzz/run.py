"""Targets under the fuzzer, one after another, with a tally of the CPU time that each has had (tally.py).

    python -m tests.fuzz.run [TARGET ...] [--minutes N] [--rounds N] [--tally]

Inputs that add coverage are kept in `.cache/fuzz/corpus/TARGET` and are the next run's beginning. An input that breaks
a promise, takes longer than SLOW_S or more than MAX_MIB of memory is left in `.cache/fuzz/found/TARGET`, if it does so
a second time: a fuzzer that was paused takes its pause for a slow input. When its cause is mended it goes to
`tests/fuzz/inputs/TARGET`, which the suite replays. SIGTERM and SIGINT end a run, and its last target counts too.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

from tests.fuzz.tally import Tally
from tests.fuzz.targets import COMPILED, PLAIN, load

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "fuzz"
SANITIZED = ROOT / "build" / "fuzz"
"""Where `scripts/fuzz` builds teia with sanitizers."""

SLOW_S = 10
"""Longest time for one input, on a machine that does other things too; instrumented code is some five times slower."""

MAX_MIB = 2_048
MAX_INPUT_BYTES = 4_096
_LIMITS = [f"-timeout={SLOW_S}", f"-rss_limit_mb={MAX_MIB}", f"-max_len={MAX_INPUT_BYTES}", "-detect_leaks=0"]
_EXECUTED = re.compile(r"stat::number_of_executed_units:\s*(\d+)")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", choices=[*PLAIN, *COMPILED, []], metavar="TARGET")
    parser.add_argument("--minutes", type=float, default=1.0, help="time for each target in a round")
    parser.add_argument("--rounds", type=int, default=1, help="rounds through the targets; 0: until it is stopped")
    parser.add_argument("--tally", action="store_true", help="print the CPU time of all targets so far")
    given = parser.parse_args()
    if given.tally:
        print("\n".join(Tally.read().table()))
        return 0
    runs = Runs(given.minutes * 60)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: runs.stop())
    return 1 if runs.rounds(given.targets or [*PLAIN, *COMPILED], given.rounds) else 0


class Runs:
    """Runs of targets, each for some seconds, until the last one or until `stop`."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.stopped = False
        self._process: subprocess.Popen[bytes] | None = None

    def stop(self) -> None:
        self.stopped = True
        if self._process:
            self._process.terminate()

    def rounds(self, targets: list[str], number: int) -> int:
        """Run all targets so many times, those with the least CPU time first; return how many inputs failed."""
        found = 0
        for done in count():
            if self.stopped or (number and done >= number):
                return found
            had = Tally.read().targets
            for target in sorted(targets, key=lambda name: had[name].cpu_s if name in had else 0.0):
                if not self.stopped:
                    found += self._run(target)
        raise AssertionError("unreachable")

    def _run(self, target: str) -> int:
        """Fuzz one target for a while, add it to the tally, and return how many inputs it failed on."""
        corpus, broken = CACHE / "corpus" / target, CACHE / "found" / target
        for folder in (corpus, broken):
            folder.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(load(target)[1]):
            (corpus / f"seed-{number}").write_bytes(seed)
        before = set(broken.iterdir())
        budget = [f"-max_total_time={max(1, round(self.seconds))}", "-print_final_stats=1", "-reload=0"]
        status, cpu_s, said = self._engine(target, [*budget, f"-artifact_prefix={broken}/", str(corpus)])
        written = sorted(set(broken.iterdir()) - before)
        new = [path for path in written if self._fails_again(target, path)]
        executed = _EXECUTED.search(said)
        entry = {"target": target, "cpu_s": round(cpu_s, 1), "inputs": int(executed[1]) if executed else 0}
        tally = Tally.read()
        tally.add(**entry, found=len(new))
        tally.write()
        print(json.dumps(entry | {"status": status, "found": [path.name for path in new]}), flush=True)
        # Without a new file it has failed on an input found before, or on none.
        failed = len(new) if written else int(status != 0 and not self.stopped)
        if failed:
            print(said[-3_000:], file=sys.stderr)
        return failed

    def _fails_again(self, target: str, path: Path) -> bool:
        """Try one input that failed, and remove it if it does not fail alone."""
        if not self.stopped and self._engine(target, ["-runs=1", "-artifact_prefix=/dev/null", str(path)])[0] == 0:
            path.unlink()
            return False
        return True

    def _engine(self, target: str, arguments: list[str]) -> tuple[int, float, str]:
        """Run the engine; return its status, its CPU seconds and the end of what it wrote."""
        # Imports pick the sanitized build first; the rest of the environment stays as it is.
        path = [str(SANITIZED)] * (target in COMPILED) + [str(ROOT)]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONSAFEPATH": "1"} | _sanitizers(target)
        with (CACHE / f"{target}.log").open("w+b") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.fuzz.engine", target, *_LIMITS, *arguments],
                stdout=output, stderr=output, env=environ, cwd=ROOT,
            )  # fmt: skip
            _, status, used = os.wait4(self._process.pid, 0)
            self._process.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            said = output.read().decode("utf-8", "replace")
        return self._process.returncode, used.ru_utime + used.ru_stime, said


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


if __name__ == "__main__":
    sys.exit(main())
