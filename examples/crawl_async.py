"""A crawl inside a program with its own event loop, cancelled half-way: `python examples/crawl_async.py`.

The pages that were parsed before the end are committed; another crawl of the same folder would continue from there.
Needs the extra `lab`.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from typing import Any

import teia
from teia.lab.server.process import lab_process


async def work(lab: dict[str, Any], data: str) -> None:
    """Crawl beside other work, and stop when that is done."""
    enough = asyncio.Event()
    crawl = asyncio.create_task(
        teia.crawl_async(
            lab["seeds"][:1],
            data=data,
            scope=["suffix:.test"],
            delay=0.1,
            dns=lab["dns"],
            allow_net=["127.77.0.0/16"],
            on_progress=lambda now: enough.set() if now.pages >= 10 else None,
        )
    )
    await enough.wait()
    crawl.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await crawl
    with teia.Collection(data) as collection:
        print(len(list(collection.pages())), "pages are stored,", collection.audit_archive().violations, "damaged")


def main() -> None:
    """Serve a small web and crawl a part of it."""
    web = lab_process("--pages", "200", "--hosts", "6", "--port", "0", "--dns-address", "127.77.255.53:0")
    with web as lab, tempfile.TemporaryDirectory() as data:
        asyncio.run(work(lab, data))


if __name__ == "__main__":
    main()
