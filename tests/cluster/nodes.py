"""Nodes as a user runs them: `teia node` in processes of their own, over a web of the lab."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from teia.frontier.cell.journal import applied_seq
from teia.store.root import open_root
from teia.transfer.read_all import known_urls
from tests.conftest import ROOT
from tests.system.labs import Lab, crawl

from .conftest import Nats

CELLS = 8
SETTLED_S = 2.0
SETTINGS = """
[collection]
seeds = ["{seed}"]
cells = {cells}
[scope]
include = ["suffix:.test"]
[courtesy]
delay_s = {delay_s}
[sites]
aliases = false
[fetch]
dns = "{dns}"
allow_nets = ["127.77.0.0/16"]
[parse]
children = 1
[index]
enabled = false
"""


@dataclass
class Cluster:
    """Nodes of one collection; whoever leaves the block ends those that are left, by their ids."""

    folder: Path
    nats: Nats
    lab: Lab
    delay_s: float
    session_s: float = 3.0
    processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    urls: dict[str, list[str]] = field(default_factory=dict)
    """Where a node reaches NATS, if not at the servers themselves."""
    addresses: dict[str, str] = field(default_factory=dict)
    """Where a node asks from, if the lab is to know it by that."""
    modules: dict[str, str] = field(default_factory=dict)
    """The module that a node runs instead of `teia`."""

    def start(self, name: str, *flags: str, once: bool = True) -> subprocess.Popen[str]:
        """Start a node, on its own folder if it was there before."""
        settings = self._write_settings()
        servers = [word for url in self.urls.get(name, self.nats.servers.urls) for word in ("--nats", url)]
        program = [sys.executable, "-m", self.modules.get(name, "teia"), "node"]
        bind = ["--bind", self.addresses[name]] if name in self.addresses else []
        with (self.folder / f"{name}.err").open("ab") as errors:
            self.processes[name] = subprocess.Popen(
                [*program, *servers, "--key", str(self.nats.servers.key), "--data",
                 str(self.data(name)), "--name", name, "--session", str(self.session_s), "--config", str(settings),
                 *(["--once"] if once else []), "--json", *bind, *flags],
                stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT,
            )  # fmt: skip
        return self.processes[name]

    def _write_settings(self) -> Path:
        """What to crawl, for whoever is the first."""
        settings = self.folder / "web.toml"
        text = SETTINGS.format(seed=self.lab.seed_url, dns=self.lab.dns, delay_s=self.delay_s, cells=CELLS)
        settings.write_text(text, "utf-8")
        return settings

    def data(self, name: str) -> Path:
        return self.folder / name

    def log_text(self, name: str) -> str:
        return (self.folder / f"{name}.err").read_text("utf-8", "replace")

    def finish(self, within_s: float = 60.0) -> dict[str, dict[str, Any]]:
        """Wait until all nodes have left by themselves; returns what each says of its work."""
        summaries = {}
        for name, process in self.processes.items():
            try:
                out, _ = process.communicate(timeout=within_s)
            except subprocess.TimeoutExpired:
                raise AssertionError(f"{name} has not left:\n{self.log_text(name)}") from None
            assert process.returncode == 0, self.log_text(name)
            summaries[name] = json.loads(out.splitlines()[-1])
        return summaries

    def stop(self, within_s: float = 60.0) -> None:
        """Have all nodes leave, as a user who ends them does."""
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        self.finish(within_s)

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        process.kill()
        process.communicate()

    def end(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.communicate()

    def owners(self) -> dict[int, str]:
        """The node whose copy of each cell is the newest."""
        newest: dict[int, tuple[int, str]] = {}
        for data in sorted(path.parent for path in self.folder.glob("*/format")):
            if data.name == "one":
                continue
            for cell in open_root(data).collection("main").cells():
                db = sqlite3.connect(cell.frontier)
                newest[cell.number] = max(newest.get(cell.number, (-1, "")), (applied_seq(db), data.name))
                db.close()
        return {cell: name for cell, (_, name) in newest.items()}

    def known(self) -> dict[str, dict[str, Any]]:
        """Every URL that the cluster knows, from the newest copy of its cell."""
        owners = self.owners()
        found: dict[str, dict[str, Any]] = {}
        for name in set(owners.values()):
            for cell, urls in known_by_cell(self.data(name)).items():
                if owners[cell] == name:
                    assert not found.keys() & urls.keys()
                    found |= urls
        return found


def known_by_cell(data: Path) -> dict[int, dict[str, dict[str, Any]]]:
    """What one folder knows of each URL, by cell."""
    from teia.urls import cell_of, cell_starts, host_of, site_of, slot_of

    starts = cell_starts(CELLS)
    cells: dict[int, dict[str, dict[str, Any]]] = {}
    for each in known_urls(open_root(data), "main"):
        cell = cell_of(slot_of(site_of(host_of(each["url"]))), starts)
        cells.setdefault(cell, {})[each["url"]] = each
    return cells


@contextmanager
def cluster(folder: Path, nats: Nats, lab: Lab, delay_s: float, session_s: float = 3.0) -> Iterator[Cluster]:
    made = Cluster(folder, nats, lab, delay_s, session_s)
    try:
        yield made
    finally:
        made.end()


def by_one_machine(lab: Lab, folder: Path, delay_s: float) -> dict[str, dict[str, Any]]:
    """What one machine learns of the same web. When this returns, the lab has written down all that was asked."""
    before = lab.requests()
    flags = ("--delay", str(delay_s), "--cells", str(CELLS), "--no-index")
    summary = crawl(lab, folder / "one", *flags, environ={"TEIA_SITES_ALIASES": "false", "TEIA_PARSE_CHILDREN": "1"})
    assert summary["state"] == "finished"
    wait_for_log(lab, before + summary["requests"])
    return {url: each for urls in known_by_cell(folder / "one").values() for url, each in urls.items()}


def wait_for_log(lab: Lab, requests: int) -> None:
    """Wait until the lab's log has so many requests; or grows no more, for not every request reaches the lab."""
    last, since = lab.requests(), time.monotonic()
    while last < requests and time.monotonic() - since < SETTLED_S:
        time.sleep(0.05)  # no condition: it may also stop to grow
        if lab.requests() > last:
            last, since = lab.requests(), time.monotonic()


def facts(known: dict[str, dict[str, Any]], *, depths: bool = True) -> dict[str, tuple[Any, ...]]:
    """What must be the same whoever crawled: all but times and the number of visits.

    Depths are, unless a cell has changed hands: a shorter way that is found late is spread from a page's copy, and the
    copies that a former keeper made are on its own disk.
    """
    return {
        url: (each["state"], each["outcome"], each["depth"] if depths else 0, each["digest"], each["in_links"])
        for url, each in known.items()
    }
