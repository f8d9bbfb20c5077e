"""A small web, crawled once for all tests that only look at the result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from teia.store.root import Root, open_root
from teia.transfer.read_all import known_urls
from tests.system.labs import IMPATIENT, Lab, crawl, running_lab

SPEC = """
seed = 21
hosts = 8
pages = 120

[sites]
theta = 0.2
nxdomain = 0
unreachable = 0

[errors]
scale = 0.5
silent_s = 2.2

[robots]
present = 0.9
excluded = 0.06
crawl_delay = 0

[links]
orphans = 0
"""


@dataclass(frozen=True)
class Crawled:
    """A finished crawl, and the web it was of."""

    data: Path
    summary: dict[str, Any]
    truth: dict[str, dict[str, Any]]
    lab: Lab

    @property
    def root(self) -> Root:
        return open_root(self.data)

    @property
    def urls(self) -> dict[str, dict[str, Any]]:
        return {each["url"]: each for each in known_urls(self.root, "main")}

    def some(self, outcome: str) -> str:
        """The first page of the lab's by its URL that had this outcome, other than a seed and what is not HTML."""
        known = self.urls.items()
        return min(
            url
            for url, each in known
            if each["outcome"] == outcome
            and each["depth"]
            and self.truth.get(url, {}).get("kind") in ("page", "excluded")
        )


@pytest.fixture(scope="session")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawled]:
    folder = tmp_path_factory.mktemp("crawled")
    with running_lab(folder, SPEC, 95, truth=True) as lab:
        summary = crawl(lab, folder / "data", "--delay", "0.05", environ=IMPATIENT)
        yield Crawled(folder / "data", summary, lab.truth(), lab)
