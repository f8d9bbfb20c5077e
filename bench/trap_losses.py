"""Pages of real sites that the trap detector costs: each site is crawled with it and without it.

    python -m bench.trap_losses [FOLDER…]       writes bench/results/trap_losses.md

Debian's `python3.11-doc`, `debian-handbook` and `apache2-doc`, or the given folders of HTML, are served by nginx on
loopback, one after the other, and crawled whole by teia, without a delay. nginx's log shows what was fetched. A page
that only the crawl without the detector fetched is lost.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from bench.peers.loopback import confine
from bench.peers.site import APACHE, HANDBOOK, PYTHON, serving
from bench.real_site import crawl_with_teia, pages

REPORT = Path(__file__).resolve().parent / "results" / "trap_losses.md"
SETTINGS = '[sites]\ntraps = {traps}\n[index]\nenabled = false\n[render]\nmode = "never"\n'


def fetched(name: str, tree: Path) -> dict[bool, set[str]]:
    """Return the pages of a site that are fetched with the detector (True) and without it (False)."""
    found: dict[bool, set[str]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with serving(folder / "nginx", {name: tree}) as site:
            for traps in (False, True):
                config = folder / f"{traps}.toml"
                config.write_text(SETTINGS.format(traps=str(traps).lower()), "utf-8")
                state, hits = crawl_with_teia(site, folder / str(traps), "--config", str(config))
                if state != "finished":
                    raise SystemExit(f"{name}: the crawl ended as {state}")
                found[traps] = pages(hits)
    return found


def main() -> None:
    confine()
    folders = [Path(each) for each in sys.argv[1:]]
    trees = {each.name: each for each in folders} or {"python": PYTHON, "handbook": HANDBOOK, "apache": APACHE}
    lines = ["# Pages lost by the trap detector", "", "Made by `python -m bench.trap_losses`.", ""]
    lines += ["| site | pages without it | with it | lost |", "|---|---:|---:|---:|"]
    for name, tree in trees.items():
        found = fetched(name, tree)
        lost = sorted(found[False] - found[True])
        lines.append(f"| {name} | {len(found[False]):,} | {len(found[True]):,} | {len(lost)} |")
        lines += [f"| | `{path}` | | |" for path in lost[:20]]
    REPORT.write_text("\n".join(lines) + "\n", "utf-8")
    print(*lines, sep="\n")


if __name__ == "__main__":
    main()
