"""Pages that the visit orders of A6 fetch first, on the lab's web, without network and without time.

    python -m bench.orders [--pages 2000] [--hosts 30] [--topic computing] [--write bench/results/orders.md]

Every page of a world is parsed once, as by a parse child. Then each order crawls the same pages with the real frontier
on disk, one page a commit, twice. Over *one queue* the order decides over the whole web, as in the papers' simulations.
*Host by host* is a real crawl at its limit of hosts: a host that was visited waits for some turns, and of the others
the one is next whose head has waited longest. After a share of the pages the benchmark counts their share of the web's
PageRank, of its in-links and of the topic's pages. `harvest` is the share of the topic's pages among the first fifth.
All crawls begin at the first host's home page and at the home page of one host of the topic. For `pagerank`, scores are
computed again from the pages read so far every hundred pages, as the indexer does every few minutes.

The last table is of the Sydney strategy: the length of its primary queue on the lab's web, whose pages have about the
same number of links each. `teia lab reproduce A6` compares it on webs of other shapes. Takes some 30 s.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import deque
from collections.abc import Container, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from teia.config.sections import FocusSettings, SydneySettings
from teia.crawler.child.focus import CompiledFocus, compile_focus, judge
from teia.crawler.child.messages import Focus, FoundLink
from teia.crawler.order_hints import RULE_HOPS, focused_hints
from teia.frontier.cell import trails
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.pagerank_scores import apply_scores, use_link_worth
from teia.frontier.cell.rows import FoundUrl, QueuedUrl, SettledVisit, tail_of
from teia.frontier.cell.schema import BY_LINK, STATE_DONE
from teia.frontier.queue.order import NO_HINT, NO_KIND, Hint, Order, is_aside, order_named
from teia.frontier.queue.tunnels import promises
from teia.graph.linkfile import LinkFile
from teia.graph.rankfile import RankFile
from teia.graph.renewal import update_ranks
from teia.lab.world.exchange import WorldRequest
from teia.lab.world.spec import WorldSpec
from teia.lab.world.url_kinds import UrlKind
from teia.lab.world.world import World
from teia.lib.topic import SCALE, learn_topic
from teia.parse.parse import parse_document
from teia.parse.text.normal import normalised
from teia.records import LinkKind, Page
from teia.urls import host_of, key_of

SHARES = (0.05, 0.1, 0.2, 0.4)
HARVEST_SHARE = 0.2
EXAMPLES = 4
COUNTED_EVERY = 20
RANKED_EVERY = 100
DELAYED_HOSTS = 4
"""Host by host: number of other hosts that are visited before a host is visited again."""

DAMPING = 0.85
NOW_S = 1_700_000_000.0
SAMPLES = (4, 8, 16)
QUIET = {
    "errors.scale": 0,
    "urls.sessions": 0,
    "sites.mirrors": 0,
    "sites.aliases": 0,
    "sites.nxdomain": 0,
    "sites.unreachable": 0,
    "links.orphans": 0,
    "robots.present": 0,
    "text.pdfs": 0,
    "links.inside": 24,
    "links.outside": 4,
}
"""Settings of a world in which every server answers and pages have as many links as real ones."""


@dataclass(frozen=True)
class Web:
    """A world as a crawler reads it: pages and their links, and the ground truth about them."""

    seeds: tuple[str, ...]
    pages: dict[str, Page]
    links: dict[str, list[FoundLink]]
    topics: dict[str, str]
    rank: dict[str, float]
    in_links: dict[str, int]


def read_world(world: World, topic: str) -> Web:
    pages: dict[str, Page] = {}
    topics: dict[str, str] = {}
    for space in world.spaces:
        for slot in range(space.size):
            if space.kind(slot) is not UrlKind.PAGE:
                continue
            path = space.path(slot).decode()
            answer = world.answer(WorldRequest(space.host.name, f"/{path}"), world.epoch_s)
            url = world.roots[space.host.name].decode() + path
            pages[url] = parse_document(url, b"HTTP/1.1 200 OK\r\n" + answer.headers + b"\r\n", answer.body).page
            topics[url] = space.host.topic
    links = {url: list(_links(page, pages)) for url, page in pages.items()}
    edges = {url: [_url(link) for link in of_page] for url, of_page in links.items()}
    in_links = dict.fromkeys(pages, 0)
    for targets in edges.values():
        for target in targets:
            in_links[target] += 1
    home = next(world.roots[host.name].decode() for host in world.hosts if host.topic == topic)
    return Web((*world.seeds(), home), pages, links, topics, page_rank(edges), in_links)


def _links(page: Page, known: Container[str]) -> Iterable[FoundLink]:
    """Return the links that a crawler would follow, each once, in the page's order."""
    texts = {link.url: link.text for link in page.links if link.kind is LinkKind.ANCHOR and not link.nofollow}
    for url in texts:
        if url == page.url or url not in known:
            continue
        host = host_of(url)
        yield FoundLink(host, key_of(url), tail_of(url, host), 1, texts[url], BY_LINK)


def _url(link: FoundLink) -> str:
    return f"http://{link.host}{link.tail}"


def page_rank(edges: dict[str, list[str]]) -> dict[str, float]:
    """Compute PageRank by power iteration; a page without links gives to all."""
    number = {url: index for index, url in enumerate(edges)}
    sources = np.array([number[url] for url, targets in edges.items() for _ in targets])
    targets = np.array([number[target] for of_page in edges.values() for target in of_page])
    degrees = np.array([len(of_page) for of_page in edges.values()])
    rank = np.full(len(edges), 1 / len(edges))
    for _ in range(60):
        share = np.where(degrees, rank / np.maximum(degrees, 1), 0)
        flow = np.bincount(targets, weights=share[sources], minlength=len(edges))
        rank = (1 - DAMPING + DAMPING * rank[degrees == 0].sum()) / len(edges) + DAMPING * flow
    return {url: float(rank[index]) for url, index in number.items()}


def lens_for(web: Web, topic: str, settings: FocusSettings) -> CompiledFocus:
    """Learn a topic from a few of its pages and a few of each other topic."""
    chance = random.Random(1)
    texts: dict[str, list[str]] = {}
    for url in chance.sample(sorted(web.pages), len(web.pages)):
        of_topic = texts.setdefault(web.topics[url], [])
        if len(of_topic) < EXAMPLES:
            of_topic.append(normalised(f"{web.pages[url].title}\n{web.pages[url].text}"))
    model = learn_topic([], texts.pop(topic), texts)
    hard, threshold = settings.mode == "hard", round(settings.threshold * SCALE)
    lens = compile_focus(Focus(model.classes, model.rest, dict(model.weights), hard, settings.tunnel, threshold))
    assert lens is not None
    return lens


# ---- one crawl ------------------------------------------------------------------------------------------------------


class Crawl:
    """The frontier of one order, and the pages it fetched."""

    def __init__(self, web: Web, order: Order, lens: CompiledFocus, path: Path) -> None:
        self.web, self.order, self.lens = web, order, lens
        self.cell = FrontierCell(path, order)
        self.cell.db.execute("PRAGMA synchronous = OFF")
        self.fetched: list[str] = []
        self.longest_queue = 0
        self._links = LinkFile(path.with_name("links.bin"))
        self._ranks = RankFile(path.with_name("ranks.bin"))
        self._heads: dict[str, QueuedUrl] = {}
        self._delayed: deque[str] = deque([""] * DELAYED_HOSTS)
        self._promised: dict[int, float] = {}
        hosts = [host_of(url) for url in web.seeds]
        self._absorb(
            [FoundUrl(host, key_of(url), tail_of(url, host), 0) for host, url in zip(hosts, web.seeds, strict=True)]
        )

    def run(self, *, host_by_host: bool) -> Crawl:
        while self._heads:
            host = self._longest_waiting() if host_by_host else self._best()
            if host:
                self._visit(host, self._heads[host])
            self._delayed.append(host)
            self._delayed.popleft()
        return self

    def _best(self) -> str:
        return min(self._heads, key=lambda host: (self._heads[host].rank, self._heads[host].key))

    def _longest_waiting(self) -> str:
        """Return the next host by KLWF; None if all hosts with work wait for their delay."""
        free = self._heads.keys() - set(self._delayed)
        return min(free, key=lambda host: (self._heads[host].since_s, self._heads[host].key), default="")

    @property
    def _now_s(self) -> float:
        return NOW_S + len(self.fetched)

    def _visit(self, host: str, item: QueuedUrl) -> None:
        self.fetched.append(item.url)
        with self.cell.transaction():
            host_id = self.cell.host_id(host, self._now_s)
            self.cell.settle(SettledVisit(host_id, item, "200", STATE_DONE, self._now_s), host)
            found = [
                FoundUrl(link.host, link.key, link.tail, item.depth + 1, hint=hint)
                for link, hint in self._hints(item, host_id, host)
            ]
        self._reload_head(host)
        self._absorb(found)
        if self.order.fixed_bit:
            self._links.append(item.key, [link.key for link in found])
            if len(self.fetched) % RANKED_EVERY == 0:
                self._rerank()
        if len(self.fetched) % COUNTED_EVERY == 0:
            self.longest_queue = max(self.longest_queue, self._primary_queue())

    def _rerank(self) -> None:
        """Do what indexer and crawler do: compute scores from the links so far, and rank the queue by them."""
        self._links.flush()
        update_ranks([self._links.path], self._ranks.path, self._now_s)
        self._ranks.reload()
        use_link_worth(self.cell, self._ranks)
        with self.cell.transaction():
            touched = apply_scores(self.cell, self._ranks, lambda: True)
        for _, host in touched:
            self._reload_head(host)

    def _primary_queue(self) -> int:
        if not self.order.sample_size:
            return self.cell.queued
        ranks = self.cell.db.execute("SELECT rank FROM queue")
        return sum(not is_aside(rank) for (rank,) in ranks)

    def _hints(self, item: QueuedUrl, host_id: int, host: str) -> Iterable[tuple[FoundLink, Hint | None]]:
        links = list(self.web.links[item.url])
        if self.order.sample_size:
            return [(link, Hint(page=item.key)) for link in links]
        if not self.order.stores_trails:
            return [(link, None) for link in links]
        way = item.hint or NO_HINT
        reading = judge(self.lens, way, self.web.pages[item.url], links)
        if way.via != NO_KIND:
            trails.count_rule(self.cell, way.via, reading.kind)
        if len(self.fetched) % 32 == 0:
            self._promised = promises(trails.all_rules(self.cell), RULE_HOPS)
        read = trails.ReadingResult(reading.relevance, reading.kind, reading.depends)
        self.cell.note_read(host_id, host, item, read, self._now_s)
        return zip(links, focused_hints(reading, way, self._promised), strict=True)

    def _absorb(self, found: Sequence[FoundUrl]) -> None:
        with self.cell.transaction():
            touched = self.cell.add_links(found, self._now_s)
        for _, host in touched:
            self._reload_head(host)

    def _reload_head(self, host: str) -> None:
        """Read a host's next URL again."""
        items = self.cell.next_urls(self.cell.host_id(host, self._now_s), host, 1, (), self._now_s)
        if items:
            self._heads[host] = items[0]
        else:
            self._heads.pop(host, None)


def crawl(web: Web, order: Order, lens: CompiledFocus, *, host_by_host: bool) -> Crawl:
    with tempfile.TemporaryDirectory() as folder:
        run = Crawl(web, order, lens, Path(folder) / "frontier.sqlite")
        with closing(run.cell):
            return run.run(host_by_host=host_by_host)


# ---- results --------------------------------------------------------------------------------------------------------


def row(name: str, web: Web, topic: str, fetched: Sequence[str]) -> str:
    """Return one line of the table: shares of PageRank, of in-links and of the topic after shares of the pages."""
    relevant = {url for url, each in web.topics.items() if each == topic}
    first = [fetched[: round(share * len(web.pages))] for share in SHARES]
    ranks = [sum(web.rank[url] for url in set(urls)) for urls in first]
    links = sum(web.in_links[url] for url in set(first[2])) / sum(web.in_links.values())
    found = [len(relevant.intersection(urls)) / len(relevant) for urls in first]
    part = fetched[: round(HARVEST_SHARE * len(web.pages))]
    harvest = sum(url in relevant for url in part) / len(part)
    cells = [*(f"{rank:.2f}" for rank in ranks), f"{links:.2f}", *(f"{share:.2f}" for share in found), f"{harvest:.2f}"]
    return f"| {name} | {' | '.join(cells)} |"


def orders_table(web: Web, topic: str, lens: CompiledFocus, *, host_by_host: bool) -> list[str]:
    shares = [f"{share:.0%}" for share in SHARES]
    head = (
        ["PageRank " + share for share in shares] + [f"in-links {shares[2]}"] + ["topic " + share for share in shares]
    )
    lines = [f"| order | {' | '.join(head)} | harvest {HARVEST_SHARE:.0%} |", f"|---|{'---:|' * (len(head) + 1)}"]
    for name in ("breadth", "depth", "backlinks", "pagerank", "sydney", "focused"):
        run = crawl(web, order_named(name), lens, host_by_host=host_by_host)
        assert set(run.fetched) == set(web.pages), f"{name} did not fetch every page"
        lines.append(row(name, web, topic, run.fetched))
    return lines


def hard_table(web: Web, topic: str, lens: CompiledFocus) -> list[str]:
    relevant = {url for url, each in web.topics.items() if each == topic}
    lines = ["| tunnel | pages | on topic | of all the topic | fetched again |", "|---|---:|---:|---:|---:|"]
    for tunnel in (0, 1, 2, 3):
        hard = compile_focus(msgspec.structs.replace(lens.focus, hard=True, tunnel=tunnel))
        assert hard is not None
        fetched = crawl(web, order_named("focused"), hard, host_by_host=True).fetched
        pages = set(fetched)
        on, again = len(pages & relevant), len(fetched) - len(pages)
        lines.append(
            f"| {tunnel} | {len(pages):,} | {on / len(pages):.2f} | {on / len(relevant):.2f}"
            f" | {again / len(pages):.1%} |"
        )
    return lines


def sydney_table(web: Web, lens: CompiledFocus) -> list[str]:
    lines = ["| links | longest primary queue |", "|---|---:|"]
    breadth = crawl(web, order_named("breadth"), lens, host_by_host=False).longest_queue
    lines.append(f"| all (breadth) | {breadth:,} (1.00) |")
    for links in SAMPLES:
        settings = SydneySettings(links=links)
        ours = crawl(web, order_named("sydney", settings), lens, host_by_host=False).longest_queue
        lines.append(f"| {links} | {ours:,} ({ours / breadth:.2f}) |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=2_000)
    parser.add_argument("--hosts", type=int, default=30)
    parser.add_argument("--topic", default="computing")
    parser.add_argument("--write", type=Path, default=None)
    options = parser.parse_args()
    began = time.perf_counter()
    spec = WorldSpec.from_values({**QUIET, "pages": options.pages, "hosts": options.hosts})
    web = read_world(World(spec, epoch_s=0.0, port=80), options.topic)
    lens = lens_for(web, options.topic, FocusSettings())
    of_topic = sum(topic == options.topic for topic in web.topics.values())
    lines = [
        "# Orders on the lab's web",
        "",
        f"`python -m bench.orders`: {len(web.pages):,} pages on {options.hosts} hosts, {of_topic:,} of them about"
        f" {options.topic}; {EXAMPLES} examples of each topic. The columns are explained in"
        " [orders.py](../orders.py).",
        "",
        "## One queue",
        "",
        *orders_table(web, options.topic, lens, host_by_host=False),
        "",
        "## Host by host",
        "",
        *orders_table(web, options.topic, lens, host_by_host=True),
        "",
        "## Hard focus, host by host",
        "",
        *hard_table(web, options.topic, lens),
        "",
        "## Sydney's queues",
        "",
        *sydney_table(web, lens),
    ]
    print("\n".join(lines))
    print(f"\n{time.perf_counter() - began:.0f} s")
    if options.write is not None:
        options.write.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
