"""Two names of one site on nodes: the owner recognises them, and all nodes know of it (A7)."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from teia.clock import WallClock
from teia.crawler.lookup import Lookup
from teia.lab.server.serve import LabServer
from teia.lab.server.witness import early_requests
from teia.store.root import open_root
from tests.crawler.sites.test_aliases import links_with_port, site
from tests.crawler.webs import Page, ScriptedWeb
from tests.waiting import until_async

from .conftest import Nats
from .test_local import teia
from .test_signals_nodes import Nodes, run

SITES = [f"s{number}.test" for number in range(6)]
PAGES = 16


class TwoNames(Nodes):
    def _write_settings(self) -> Path:
        path = super()._write_settings()
        seeds = [self.lab.url(f"{www}{name}", "/") for name in SITES for www in ("", "www.")]
        lines = [f"seeds = {seeds}" if line.startswith("seeds =") else line for line in path.read_text().splitlines()]
        text = "\n".join(lines).replace("'", '"').replace("aliases = false", "aliases = true")
        path.write_text(text, "utf-8")
        return path

    def in_links(self, name: str, url: str) -> int:
        """How many pages link to a URL, by a node's folder; -1 if it does not know it."""
        with Lookup(open_root(self.data(name)), "main") as lookup:
            entry = lookup.find(url)
            return -1 if entry is None else entry.in_links


def test_names_of_one_site_are_one_for_all_nodes(own_nats: Nats, tmp_path: Path) -> None:
    pages: dict[str, dict[str, Page]] = {}
    for number, name in enumerate(SITES):
        pages[name] = pages[f"www.{name}"] = {**site(PAGES, first=100 * number), "/late": site(2)["/1"]}
    late = [f"www.{name}/late" for name in SITES]
    # Each page has a text of its own: links of a body that a node has seen before are not counted again.
    pages |= {f"late{number}.test": {"/": links_with_port(*late, f"late{number}.test/")} for number in range(4)}

    async def main() -> None:
        log = tmp_path / "requests.jsonl"
        async with LabServer(ScriptedWeb(pages), WallClock(), port=0, dns="127.77.255.95:0", log=log) as lab:
            nodes = TwoNames(tmp_path, own_nats, lab, 0.1, session_s=8.0)  # type: ignore[arg-type]
            nodes.log = log
            try:
                await crawl(nodes)
            finally:
                nodes.end()

    async def crawl(nodes: Nodes) -> None:
        assert isinstance(nodes, TwoNames)
        for name in "ab":
            nodes.start(name, once=False)

        def whole(name: str) -> bool:
            return len({each.path for each in nodes.entries() if each.host == name} - {"/robots.txt"}) >= PAGES

        await until_async(lambda: all(whole(name) or whole(f"www.{name}") for name in SITES), within_s=60)
        asked = {host: sum(each.host == host for each in nodes.entries()) for host in pages}
        assert sum(min(asked[name], asked[f"www.{name}"]) for name in SITES) <= 8 * len(SITES), asked
        # Pages of new sites, of either node, link to the other names.
        seeds = [nodes.lab.url(f"late{number}.test", "/") for number in range(4)]
        done = await asyncio.to_thread(teia, "add", *seeds, "--data", str(nodes.data("a")))
        assert done.returncode == 0, done.stderr
        mains = {name: name if asked[name] > asked[f"www.{name}"] else f"www.{name}" for name in SITES}
        await until_async(lambda: set(nodes.asked("/late")) >= set(mains.values()), within_s=30)
        assert set(nodes.asked("/late")) == set(mains.values())
        urls = [nodes.lab.url(main, "/late") for main in mains.values()]
        await until_async(
            lambda: all(max(nodes.in_links(name, url) for name in "ab") == 4 for url in urls), "links are counted"
        )
        assert early_requests(nodes.entries(), 0.1, lambda entry: entry.host) == []
        for process in nodes.processes.values():
            process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(nodes.finish)

    run(main)
