"""Completeness of a crawl of real sites, written by others: the same pages as wget2 finds.

    python -m bench.real_site            writes bench/results/real_site.md

Debian's `python3.11-doc` and `debian-handbook` are each served by nginx on loopback and crawled whole by teia (no
delay, 16 requests at once) and by `wget2 -r -l inf`. nginx's log shows which crawler fetched what. For every difference
the report names the pages that link to it, with the link as written there; for every file that neither fetched it looks
for a link.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from bench.peers.loopback import confine
from bench.peers.site import HANDBOOK, PYTHON, Hit, Site, serving

TREES = {"python": PYTHON, "handbook": HANDBOOK}
REPORT = Path(__file__).resolve().parent / "results" / "real_site.md"
AT_ONCE = 16
LIMIT_S = 300.0
SHOWN = 50
HREF = re.compile(r"""(?:href|src)\s*=\s*["']?([^"'>\s]+)""")
SLASHES = re.compile("/+")
WHY = {
    "`https//planet.debian.org/`": "a typing error (no colon) that makes a relative link; "
    "a browser and teia keep the empty segment, wget2 makes one slash of two",
}
"""Explanations of known differences, by the link as it is written."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Requests of teia and of wget2 to one site; `state` is the final state of teia's crawl."""

    state: str
    ours: list[Hit]
    theirs: list[Hit]

    @property
    def our_pages(self) -> set[str]:
        return pages(self.ours)

    @property
    def their_pages(self) -> set[str]:
        return pages(self.theirs)


def pages(hits: Iterable[Hit]) -> set[str]:
    return {hit.path for hit in hits if hit.is_page}


def failures(hits: Iterable[Hit]) -> set[str]:
    return {hit.path for hit in hits if hit.status >= 400}


def crawl_with_teia(site: Site, data: Path, *flags: str) -> tuple[str, list[Hit]]:
    """Crawl a site with teia; return the final state of the crawl and its requests."""
    since = site.mark()
    shared = ("--delay", "0", "--per-host", str(AT_ONCE), "--allow-net", "127.0.0.0/8", "--json")
    command = [sys.executable, "-m", "teia", "crawl", site.url, "--data", str(data), *shared, *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    return json.loads(done.stdout.splitlines()[-1])["state"], site.hits(since)


def crawl_with_wget2(site: Site, files: Path, *flags: str) -> list[Hit]:
    """Crawl a site with wget2; its status 8 means that some links led nowhere."""
    since = site.mark()
    command = [
        "wget2",
        "--quiet",
        "--recursive",
        "--level=inf",
        f"--max-threads={AT_ONCE}",
        f"--directory-prefix={files}",
    ]
    done = subprocess.run([*command, *flags, site.url], timeout=LIMIT_S, check=False)
    if done.returncode not in {0, 8}:
        raise subprocess.CalledProcessError(done.returncode, command)
    return site.hits(since)


def compared(name: str, tree: Path) -> Comparison:
    with (
        tempfile.TemporaryDirectory(prefix="teia-site-") as folder,
        serving(Path(folder) / "site", {name: tree}) as site,
    ):
        state, ours = crawl_with_teia(site, Path(folder) / "data")
        return Comparison(state, ours, crawl_with_wget2(site, Path(folder) / "files"))


# ---- explanations ---------------------------------------------------------------------------------------------------


def links_to(name: str, tree: Path, path: str) -> list[str]:
    """Return the other pages that link to a path, and the link as written; repeated slashes count as one."""
    found: dict[str, None] = {}
    for file in sorted(tree.rglob("*.html")):
        base = f"http://site/{name}/{file.relative_to(tree)}"
        for href in HREF.findall(file.read_text("utf-8", "replace")):
            target = urlsplit(urljoin(base, href))
            is_elsewhere = target.path != urlsplit(base).path
            if is_elsewhere and target.netloc == "site" and SLASHES.sub("/", target.path) == SLASHES.sub("/", path):
                found[f"`{file.relative_to(tree)}` says `{href}`"] = None
    return list(found)


def explain_rows(name: str, tree: Path, paths: Iterable[str]) -> list[str]:
    lines = []
    for path in sorted(paths)[:SHOWN]:
        where = links_to(name, tree, path)
        why = next((why for written, why in WHY.items() if any(written in link for link in where)), "")
        lines.append(f"- `{path}`: " + ("; ".join([*where[:3], *filter(None, [why])]) or "no page links to it"))
    return lines or ["- none"]


def section(name: str, tree: Path, result: Comparison) -> list[str]:
    files = {f"/{name}/{file.relative_to(tree)}" for file in tree.rglob("*.html")}
    ours, theirs = result.our_pages, result.their_pages
    return [
        f"## {name}",
        "",
        f"teia's crawl: {result.state}. "
        f"HTML pages: {len(ours):,} by teia, {len(theirs):,} by wget2, {len(ours & theirs):,} by both.",
        "",
        "Pages only wget2 fetched:",
        *explain_rows(name, tree, theirs - ours),
        "",
        "Pages only teia fetched:",
        *explain_rows(name, tree, ours - theirs),
        "",
        "Links that led nowhere and that only teia requested:",
        *explain_rows(name, tree, failures(result.ours) - failures(result.theirs)),
        "",
        "Links that led nowhere and that only wget2 requested:",
        *explain_rows(name, tree, failures(result.theirs) - failures(result.ours)),
        "",
        "Files of the package that neither fetched, and the pages that link to them:",
        *explain_rows(name, tree, files - ours - theirs),
        "",
    ]


def main() -> None:
    confine()
    report = [
        "# A real site, crawled completely",
        "",
        "Made by `python -m bench.real_site`; bench/README.md explains it.",
        "",
    ]
    for name, tree in TREES.items():
        result = compared(name, tree)
        print(
            name, result.state, len(result.our_pages), "pages by teia,", len(result.their_pages), "by wget2", flush=True
        )
        report += section(name, tree, result)
    REPORT.write_text("\n".join(report), "utf-8")


if __name__ == "__main__":
    main()
