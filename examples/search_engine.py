"""A search engine that uses teia as its crawler and index: `python examples/search_engine.py`.

It collects one site, and the Portuguese pages that its links lead to elsewhere. It shows results with the PageRank of
their pages, as other programs get it with `teia export urls`. Needs the extra `lab`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import teia
from teia.lab.server.process import lab_process


def collect(lab: dict[str, Any], data: Path | str) -> teia.Summary:
    """Crawl the first host of a web and Portuguese elsewhere, and build the index."""
    home = lab["seeds"][0]
    summary = teia.crawl(
        home,
        data=data,
        scope=[f"or(host:{urlsplit(home).hostname}, lang:pt)"],
        delay=0.02,  # for servers of your own; the default is 5 s
        dns=lab["dns"],
        allow_net=["127.77.0.0/16"],
        courtesy={"retry_wait_s": 0.2},
        limits={"slow_s": 2.0},
    )
    teia.rebuild_index(data)
    return summary


def answer(data: Path | str, query: str, n: int = 5) -> list[tuple[float, str, str]]:
    """Return PageRank, URL and title of the best pages for a query."""
    with teia.Collection(data) as collection:
        ranks = {each["url"]: each["pagerank"] for each in collection.urls()}
        return [(ranks[hit.url], hit.url, hit.title.plain()) for hit in collection.search(query, n).hits]


def main() -> None:
    """Serve a small web, collect a part of it and search it."""
    web = lab_process("--pages", "120", "--hosts", "6", "--port", "0", "--dns-address", "127.77.255.53:0")
    with web as lab, tempfile.TemporaryDirectory() as data:
        summary = collect(lab, data)
        print(f"{summary.pages} pages, {summary.outcomes.get('out_of_scope', 0)} in other languages left out")
        for rank, url, title in answer(data, "cidade"):
            print(f"{rank:.4f} {url} {title}")


if __name__ == "__main__":
    main()
