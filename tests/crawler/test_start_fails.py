"""Opening a crawler: whatever fails on the way, what was opened before it is closed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from teia.clock import WallClock
from teia.config.sections import Config
from teia.crawler.child import answer_reader
from teia.crawler.start import open_crawler
from teia.errors import ConfigError
from teia.parse.children.spawn import ZygoteProcess
from teia.store.root import open_root


@pytest.mark.parametrize("is_given", [False, True])
def test_a_start_that_fails_leaves_no_parse_child(tmp_path: Path, zygotes: list[ZygoteProcess], is_given: bool) -> None:
    """What is wrong with `fetch.resolve` is found after a command has started the children."""
    config = Config()
    config = replace(config, fetch=replace(config.fetch, resolve=("nonsense",)))
    root = open_root(tmp_path, create=True)
    root.collection(config.collection.name).create_cells(1)

    async def main() -> None:
        zygote = ZygoteProcess.start(answer_reader) if is_given else None
        with pytest.raises(ConfigError, match=r"fetch\.resolve"):
            async with open_crawler(root, [config], WallClock(), seed=1, zygote=zygote):
                pass

    with root.locked():
        asyncio.run(main())
    assert len(zygotes) == is_given, "none is started for settings that are wrong"
    assert all(zygote.process.returncode is not None for zygote in zygotes)
