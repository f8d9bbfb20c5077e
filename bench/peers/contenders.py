"""The participants: teia with three settings, and the peers, each with the command that crawls the site.

All begin at the same page, may have the same number of requests under way, stay on the one host, obey robots.txt (there
is none) and follow links that match PAGES: those that end in .html or in no ending at all. spider-rs decides by itself
what is a page, with the same result. Only teia and wget2 store what they fetch.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

from teia.errors import MissingComponent, UsageError

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
ENVIRONMENTS = ROOT / ".cache" / "peers"
AT_ONCE = 16
PAGES = r"[^?#]*/([^/.?#]*|[^/?#]*\.html)(#.*)?$"
LINKS, ARCHIVE, PRODUCT = "links", "links + archive", "default product"
PEERS = ("scrapy", "crawlee", "spider-rs", "wget2")


@dataclass(frozen=True, slots=True)
class Contender:
    """One command to measure. SEED and FOLDER in it are replaced; `exits` are the statuses of success."""

    name: str
    setting: str
    command: tuple[str, ...]
    environ: dict[str, str] = field(default_factory=dict)
    exits: tuple[int, ...] = (0,)

    @property
    def title(self) -> str:
        return f"{self.name} ({self.setting})"

    def command_for(self, seed: str, folder: Path) -> list[str]:
        return [word.replace("SEED", seed).replace("FOLDER", str(folder)) for word in self.command]


RENDER_MODE = "TEIA_RENDER_MODE"


def ours() -> list[Contender]:
    """Return teia's crawler three times: links alone, links and archive, and the default product."""
    command = (
        sys.executable, "-m", "teia", "crawl", "SEED", "--data", "FOLDER/data", "--json",
        "--delay", "0", "--per-host", str(AT_ONCE), "--allow-net", "127.0.0.0/8",
        "--scope", rf"and(host:127.0.0.1, regex:{PAGES})",
    )  # fmt: skip
    # No peer renders pages, and a crawl of three seconds would measure the start of a browser.
    received = {RENDER_MODE: "never"}
    archive = {**received, "TEIA_PARSE_TEXT": "false", "TEIA_INDEX_ENABLED": "false"}
    return [
        Contender("teia", LINKS, command, {**archive, "TEIA_ARCHIVE_ANSWERS": "false"}),
        Contender("teia", ARCHIVE, command, archive),
        Contender("teia", PRODUCT, command, received),
    ]


def peer(name: str) -> Contender:
    """Return a peer by its name, if it is installed."""
    if name in {"scrapy", "crawlee"}:
        script = {"scrapy": "scrapy_spider.py", "crawlee": "crawlee_crawler.py"}[name]
        python = _installed(ENVIRONMENTS / name / "bin" / "python", name)
        return Contender(name, LINKS, (python, str(HERE / script), "SEED", PAGES, str(AT_ONCE)))
    if name == "spider-rs":
        modules = _installed(ENVIRONMENTS / name / "node_modules", name)
        return Contender(name, LINKS, ("node", str(HERE / "spider_rs.mjs"), "SEED", str(Path(modules).parent)))
    if name == "wget2":
        wget2 = _installed(Path(shutil.which("wget2") or "/nowhere"), name)
        flags = ("--quiet", "--recursive", "--level=inf", f"--max-threads={AT_ONCE}", "--directory-prefix=FOLDER/files")
        # 8: some links led nowhere, as on every real site
        return Contender(name, "links and files", (wget2, *flags, f"--accept-regex={PAGES}", "SEED"), exits=(0, 8))
    raise UsageError(f"--peers {name!r}: must be some of {','.join(PEERS)}")


def _installed(path: Path, name: str) -> str:
    if not path.exists():
        raise MissingComponent(f"{name} is not installed: run scripts/peers, or leave it out of --peers")
    return str(path)
