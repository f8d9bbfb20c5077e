"""The CPU time, inputs and faults of each target over all runs, in `bench/results/fuzz.json`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

TALLY = Path(__file__).resolve().parents[2] / "bench" / "results" / "fuzz.json"
AIM_HOURS = 24


@dataclass
class Sum:
    """What one target has had."""

    cpu_s: float = 0.0
    inputs: int = 0
    found: int = 0


@dataclass
class Tally:
    """Sums by target, and the days of the runs."""

    targets: dict[str, Sum] = field(default_factory=dict)
    days: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path = TALLY) -> Tally:
        if not path.exists():
            return cls()
        stored = json.loads(path.read_text("utf-8"))
        return cls({name: Sum(**values) for name, values in stored["targets"].items()}, stored["days"])

    def add(self, target: str, cpu_s: float, inputs: int, found: int) -> None:
        """Add one run of a target, of today."""
        had = self.targets.get(target, Sum())
        self.targets[target] = Sum(round(had.cpu_s + cpu_s, 1), had.inputs + inputs, had.found + found)
        self.days = sorted({*self.days, datetime.now(UTC).strftime("%Y-%m-%d")})

    def write(self, path: Path = TALLY) -> None:
        whole = {
            "cpu_hours": round(self.cpu_s / 3600, 2),
            "aim_hours": AIM_HOURS,
            "inputs": sum(had.inputs for had in self.targets.values()),
            "found": sum(had.found for had in self.targets.values()),
            "days": self.days,
            "targets": {name: asdict(self.targets[name]) for name in sorted(self.targets)},
        }
        path.write_text(json.dumps(whole, indent=1) + "\n", "utf-8")

    @property
    def cpu_s(self) -> float:
        return sum(had.cpu_s for had in self.targets.values())

    def table(self) -> list[str]:
        """Return the sums as a table in Markdown."""
        rows = [
            f"| {name} | {had.cpu_s / 60:.1f} | {had.inputs:,} | {had.found} |"
            for name, had in sorted(self.targets.items())
        ]
        inputs, found = (sum(getattr(had, name) for had in self.targets.values()) for name in ("inputs", "found"))
        return [
            "| target | CPU minutes | inputs | found |",
            "|---|---|---|---|",
            *rows,
            f"| all | {self.cpu_s / 60:.1f} | {inputs:,} | {found} |",
            "",
            f"{self.cpu_s / 3600:.2f} of {AIM_HOURS} CPU-hours; days: {', '.join(self.days)}",
        ]
