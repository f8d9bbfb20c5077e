"""A crawl of a synthetic web on this machine, from Python: `python examples/crawl_lab.py`.

Needs the extra `lab`. Nothing leaves the machine, and the collection is deleted with its temporary folder.
"""

from __future__ import annotations

import tempfile

import teia
from teia.lab.server.process import lab_process


def main() -> None:
    """Crawl a small web, then print what was stored."""
    web = lab_process("--pages", "60", "--hosts", "6", "--port", "0", "--dns-address", "127.77.255.53:0")
    with web as lab, tempfile.TemporaryDirectory() as data:
        summary = teia.crawl(
            lab["seeds"][:1],
            data=data,
            scope=["suffix:.test"],
            delay=0.1,  # for servers of your own; the default is 5 s
            max_pages=40,
            dns=lab["dns"],
            allow_net=["127.77.0.0/16"],
            courtesy={"retry_wait_s": 0.2},  # any setting, by its section
            limits={"slow_s": 2.0},
            on_progress=lambda now: print(f"{now.pages} pages, {now.urls_queued} queued"),
        )
        print(f"{summary.state}: {summary.pages} pages, {summary.politeness_violations} politeness violations")
        with teia.Collection(data) as collection:
            for page in collection.pages():
                print(page["status"], page["url"], page["title"])
            longest = collection.sql("SELECT url, bytes FROM fetches ORDER BY bytes DESC LIMIT 1").rows[0]
            print("the largest answer:", *longest)


if __name__ == "__main__":
    main()
