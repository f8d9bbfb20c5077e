"""Bodies that several nodes of a cluster store: what one stored body, or one parse, would save, and what asking costs.

    python -m bench.seen_elsewhere [--nodes 3] [--pages 3000] [--hosts 25] [--mirrors 0.02] [--write FILE.md]

Nodes crawl a lab web without delays; its mirrors are on hosts of their own, and so in any cell. Then all cells are
copied into one folder (`teia cluster copy`), and `teia report duplicates` counts its contents. Bodies that lie on two
nodes are found by their checksums (`seen.sqlite`). A body with no link to its own server (`LinkScope.ANYWHERE`) would
not be parsed again elsewhere. The price is that of questions to the node that would know: NATS requests with an answer
of the size of a `SeenAnswer` and its `ParsedBody`, one body or ten in a question. Processor time of both clients and of
the servers counts.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.exchange import SETTINGS, _cpu_s, _node
from teia.clock import WallClock
from teia.cluster.cells.copy_all import replicate
from teia.cluster.nats.servers import NatsServers
from teia.cluster.nats.wire import connect
from teia.crawler.child.messages import decode_parsed
from teia.crawler.child.seen_answer import LinkScope
from teia.lab.server.process import lab_process
from teia.parse.parse import parse_document
from teia.store.archive import archive_files
from teia.store.reader import file_records, ignore_damage, split_head
from teia.store.root import open_root
from teia.views.reports.duplicates import Duplicates, duplicates
from teia.views.reports.source import open_source

SPEC = """
seed = 5
hosts = {hosts}
pages = {pages}
sites = {{ mirrors = {mirrors}, aliases = 0 }}
errors = {{ scale = 0 }}
robots = {{ crawl_delay = 0 }}
"""
NET, SERVERS = 198, 3
QUESTIONS, AT_ONCE = 4_000, 16
QUESTION_BYTES, ANSWER_BYTES = 12, 700
"""A checksum with its length; URL, digest, head and result of parsing, as `seen.sqlite` and the archive have them."""

PARSED = 400


@dataclass(frozen=True, slots=True)
class Repeated:
    """Bodies that another node has too, their compressed size, and how many of them have the same links anywhere."""

    bodies: int
    bytes: int
    unparsed: int


def repeated_bodies(folders: list[Path]) -> Repeated:
    """Compare what the nodes have stored, by the checksums of their bodies."""
    again, total, unparsed, known = 0, 0, 0, set[int]()
    for folder in folders:
        path = open_root(folder).collection("main").seen
        if not path.exists():  # others were faster: it stored nothing
            continue
        with sqlite3.connect(path) as db:
            rows = db.execute("SELECT checksum, length, parsed FROM bodies").fetchall()
        for _, length, parsed in (row for row in rows if row[0] in known):
            again, total = again + 1, total + length
            unparsed += decode_parsed(parsed).scope == LinkScope.ANYWHERE
        known |= {checksum for checksum, *_ in rows}
    return Repeated(again, total, unparsed)


def answers(folders: list[Path]) -> Iterator[tuple[str, bytes, int]]:
    """Yield the URL, the block and the compressed length of the responses that the nodes have stored."""
    for folder in folders:
        for archive in sorted((folder / "main" / "cells").glob("*/archive")):
            for path in archive_files(archive):
                for record in file_records(path, ignore_damage):
                    if record.kind == "response" and not record.url.endswith("/robots.txt"):
                        yield record.url, record.block, record.length


def parse_ms(folders: list[Path]) -> float:
    """Return the processor time of parsing one of the answers, in ms."""
    sample = [(url, *split_head(block)) for (url, block, _), _ in zip(answers(folders), range(PARSED), strict=False)]
    began = time.process_time()
    for url, head, body in sample:
        parse_document(url, head, body)
    return 1_000 * (time.process_time() - began) / len(sample)


async def question_us(nats: NatsServers, bodies: int) -> float:
    """Return the processor time of a question about so many bodies, with its answer, in µs a body."""
    asker, owner = [await connect(nats.urls, nats.key, name) for name in ("asker", "owner")]
    answer = bytes(ANSWER_BYTES)  # for one of them: the others are new

    async def respond(message: object) -> None:
        await message.respond(answer)  # type: ignore[attr-defined]

    await owner.client.subscribe("bodies.owner", cb=respond)
    await owner.client.flush()
    room, question = asyncio.Semaphore(AT_ONCE), bytes(QUESTION_BYTES * bodies)

    async def ask() -> None:
        async with room:
            await asker.client.request("bodies.owner", question, timeout=5.0)

    servers = [nats.process_of(at) for at in range(SERVERS)]
    before = time.process_time() + sum(map(_cpu_s, servers))
    await asyncio.gather(*(ask() for _ in range(QUESTIONS)))
    spent = time.process_time() + sum(map(_cpu_s, servers)) - before
    for wire in (asker, owner):
        await wire.end()
    return 1e6 * spent / QUESTIONS / bodies


async def measure(folder: Path, nodes: int, pages: int, hosts: int, mirrors: float) -> dict[str, str]:
    """Crawl the web with nodes and return the figures, as text."""
    spec = folder / "world.toml"
    spec.write_text(SPEC.format(hosts=hosts, pages=pages, mirrors=mirrors), "utf-8")
    flags = ["--spec", str(spec), "--port", "0", "--address", f"127.77.{NET}.1", "--log", str(folder / "log.jsonl")]
    flags += ["--dns-address", f"127.77.255.{NET}:0", "--control-address", f"127.77.254.{NET}"]
    with lab_process(*flags) as ready:
        settings = folder / "web.toml"
        values = {"seed": ready["seeds"][0], "dns": ready["dns"], "cells": 8, "delay_s": 0.0, "per_host": 4}
        settings.write_text(SETTINGS.format(**values) + "[index]\nenabled = false\n", "utf-8")
        async with NatsServers(folder / "nats", SERVERS, WallClock()) as nats:
            names = [f"n{at}" for at in range(nodes)]
            reports = await asyncio.gather(*(_node(folder, name, nats, settings) for name in names))
            root = open_root(folder / "all", create=True)
            await replicate(root, nats.urls, nats.key, None, "main", WallClock())
            alone, together = [await question_us(nats, bodies) for bodies in (1, 10)]
    with open_source(root, "main") as source:
        found: Duplicates = duplicates(source)
    folders = [folder / name for name in names]
    stored = sum(length for _, _, length in answers(folders))
    repeated = repeated_bodies(folders)
    parsing_ms = parse_ms(folders)
    cpu_ms = 1_000 * sum(each["cpu_s"] for each in reports) / sum(each["pages"] for each in reports)
    messages = sum(each["messages"] for each in reports) / sum(each["pages"] for each in reports)
    return {
        "documents": f"{found.documents:,}",
        "that repeat another": f"{found.share:.1%}",
        "bodies that another node has too": f"{repeated.bodies:,} ({repeated.bodies / found.documents:.1%})",
        "their compressed size": f"{repeated.bytes:,} of {stored:,} bytes ({repeated.bytes / stored:.1%})",
        "of them with the same links anywhere": f"{repeated.unparsed:,} ({repeated.unparsed / found.documents:.1%})",
        "processor time a page": f"{cpu_ms:.1f} ms",
        "messages a page": f"{messages:.2f}",
        "parsing an answer": f"{parsing_ms:.2f} ms",
        "parsing saved, a page": f"{1_000 * parsing_ms * repeated.unparsed / found.documents:.1f} µs",
        "a question about one body": f"{alone:.0f} µs",
        "a question about ten, a body": f"{together:.0f} µs",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--pages", type=int, default=3_000)
    parser.add_argument("--hosts", type=int, default=25)
    parser.add_argument("--mirrors", type=float, default=0.02)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = asyncio.run(measure(Path(folder), options.nodes, options.pages, options.hosts, options.mirrors))
    table = "\n".join(["| figure | value |", "|---|---:|", *(f"| {name} | {value} |" for name, value in rows.items())])
    print(table)
    if options.write is not None:
        options.write.write_text(f"# Bodies on several nodes\n\n{table}\n", "utf-8")


if __name__ == "__main__":
    main()
