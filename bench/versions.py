"""Compare the crawl speed of two checkouts of teia on the same site, round by round.

    python -m bench.versions ../before . --rounds 5 [--setting "default product"] [--render auto] [--without-scripts]

Each round crawls the site of `teia bench crawl` once with every setting of either checkout, in alternating order. A
ratio is the median of the ratios within each round, so that a slow phase of the machine slows both sides of it. A site
without scripts shows what rendering costs where nothing is rendered.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median

from bench.peers.contenders import ARCHIVE, LINKS, PRODUCT, RENDER_MODE, Contender, ours
from bench.peers.loopback import confine
from bench.peers.runner import TREES, Run, run_once
from bench.peers.site import serving

SETTINGS = (LINKS, ARCHIVE, PRODUCT)
_SCRIPT = re.compile(rb"<script\b.*?</script>", re.DOTALL | re.IGNORECASE)


def contenders_of(checkout: Path, label: str, render: str) -> list[Contender]:
    """Return teia's settings, run by the environment of a checkout, with a mode of rendering."""
    python, path = str(checkout / ".venv" / "bin" / "python"), {"PYTHONPATH": str(checkout)}
    # An older version refuses settings that it does not know.
    mode = {RENDER_MODE: render} if (checkout / "teia" / "render").is_dir() else {}
    return [
        replace(
            each,
            name=label,
            command=(python, *each.command[1:]),
            environ={name: value for name, value in each.environ.items() if name != RENDER_MODE} | path | mode,
        )
        for each in ours()
    ]


def copy_without_scripts(trees: Mapping[str, Path], folder: Path) -> dict[str, Path]:
    """Copy the pages of a site without their scripts; return the copies."""
    for name, tree in trees.items():
        for path in tree.rglob("*.html"):
            copy = folder / name / path.relative_to(tree)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(_SCRIPT.sub(b"", path.read_bytes()))
    return {name: folder / name for name in trees}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path, help="checkout with a .venv, made by scripts/teia")
    parser.add_argument("after", type=Path, help="the same")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--setting", choices=SETTINGS, help="only this setting; all without it")
    parser.add_argument("--render", default="never", help="render.mode of the second checkout; the first has never")
    parser.add_argument("--without-scripts", action="store_true", help="take the scripts out of all pages first")
    arguments = parser.parse_args()
    checkouts = arguments.before.resolve(), arguments.after.resolve()
    both = zip(*map(contenders_of, checkouts, ("before", "after"), ("never", arguments.render)), strict=True)
    pairs = [pair for pair in both if arguments.setting in (None, pair[0].setting)]
    only_loopback = confine()
    runs: dict[str, list[tuple[Run, Run]]] = {before.setting: [] for before, _ in pairs}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="teia-bench-")))
        trees = copy_without_scripts(TREES, folder / "pages") if arguments.without_scripts else TREES
        site = stack.enter_context(serving(folder / "site", trees))
        for number in range(arguments.rounds):
            for before, after in pairs:
                is_swapped = bool(number % 2)
                measured = [run_once(each, site) for each in ((after, before) if is_swapped else (before, after))]
                old, new = reversed(measured) if is_swapped else measured
                runs[before.setting].append((old, new))
                print(f"round {number + 1}: {before.setting}: {old.pages_per_s:.0f}, {new.pages_per_s:.0f} pages/s")
    rows = {
        setting: {
            "pages": [len(of_it[0][0].pages), len(of_it[0][1].pages)],
            "pages_per_s": [round(median(pair[side].pages_per_s for pair in of_it), 1) for side in (0, 1)],
            "searchable_pages_per_s": [
                round(median(len(pair[side].pages) / (pair[side].seconds + pair[side].index_s) for pair in of_it), 1)
                for side in (0, 1)
            ],
            "cpu_ms_per_page": [round(median(pair[side].cpu_ms_per_page for pair in of_it), 3) for side in (0, 1)],
            "disk_bytes_per_page": [round(median(pair[side].disk_bytes_per_page for pair in of_it)) for side in (0, 1)],
            "speed_ratio": round(median(new.pages_per_s / old.pages_per_s for old, new in of_it), 3),
            "fetched_s": [round(median(pair[side].fetched_s for pair in of_it), 3) for side in (0, 1)],
            "fetched_ratio": round(median(old.fetched_s / new.fetched_s for old, new in of_it), 3),
            "cpu_ratio": round(median(new.cpu_ms_per_page / old.cpu_ms_per_page for old, new in of_it), 3),
            "searchable_ratio": round(
                median((old.seconds + old.index_s) / (new.seconds + new.index_s) for old, new in of_it), 3
            ),
        }
        for setting, of_it in runs.items()
    }
    print(json.dumps({"rows": rows, "rounds": arguments.rounds, "only_loopback": only_loopback}))


if __name__ == "__main__":
    main()
