"""A site that nobody here wrote, crawled completely: two languages of the Debian handbook, beside wget2.

`python -m bench.real_site` does the same with the whole handbook and Python's documentation.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator  # type: ignore[import-untyped]  # it ships no types

from bench.peers.site import HANDBOOK, need, serving
from bench.real_site import Comparison, crawl_with_teia, crawl_with_wget2, failures, pages
from teia.errors import MissingComponent
from tests.conftest import missing

TREES = {"en": HANDBOOK / "en-US", "pt": HANDBOOK / "pt-BR"}


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory, program: Callable[[str], str]) -> tuple[Comparison, Path]:
    """Both crawls of one site, and the folder of ours."""
    program("wget2")
    try:
        need(*TREES.values())
    except MissingComponent as error:
        missing(str(error))
    folder = tmp_path_factory.mktemp("real")
    with serving(folder / "site", TREES) as site:
        state, ours = crawl_with_teia(site, folder / "data")
        return Comparison(state, ours, crawl_with_wget2(site, folder / "files")), folder / "data"


def answers(file: Path) -> list[str]:
    """The URLs whose answers a WARC file holds, as warcio reads it."""
    with file.open("rb") as stream:
        return [
            record.rec_headers.get_header("WARC-Target-URI")
            for record in ArchiveIterator(stream)
            if record.rec_type in {"response", "revisit"}
        ]


def test_a_real_site_is_crawled_to_its_end(crawled: tuple[Comparison, Path]) -> None:
    comparison, _ = crawled
    assert comparison.state == "finished"
    on_disk = {f"/{name}/{file.relative_to(tree)}" for name, tree in TREES.items() for file in tree.rglob("*.html")}
    assert on_disk <= comparison.our_pages


def test_the_pages_are_those_wget2_finds(crawled: tuple[Comparison, Path]) -> None:
    comparison, _ = crawled
    assert len(comparison.their_pages) > 200
    assert comparison.our_pages == comparison.their_pages


def test_no_page_is_fetched_twice(crawled: tuple[Comparison, Path]) -> None:
    comparison, _ = crawled
    assert len(comparison.ours) == len({hit.path for hit in comparison.ours})


def test_a_broken_link_is_tried_as_a_browser_reads_it(crawled: tuple[Comparison, Path]) -> None:
    """The Portuguese handbook says `https//planet.debian.org/`: a relative link with an empty segment in it."""
    comparison, _ = crawled
    assert "/pt/https//planet.debian.org/" in failures(comparison.ours)


def test_the_archive_of_a_real_site_is_valid_to_others(crawled: tuple[Comparison, Path]) -> None:
    _, data = crawled
    files = sorted(map(str, data.rglob("*.warc.gz")))
    assert files
    checked = subprocess.run(
        [sys.executable, "-m", "warcio.cli", "check", *files], capture_output=True, text=True, timeout=60, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_crawl_for_links_alone_finds_the_same_pages_and_keeps_none(
    crawled: tuple[Comparison, Path], tmp_path: Path
) -> None:
    settings = tmp_path / "links.toml"
    settings.write_text("[parse]\ntext = false\n\n[archive]\nanswers = false\n", "utf-8")
    with serving(tmp_path / "site", TREES) as site:
        state, hits = crawl_with_teia(site, tmp_path / "data", "--config", str(settings))
    comparison, _ = crawled
    assert state == "finished"
    assert pages(hits) == comparison.our_pages
    assert not [record for file in (tmp_path / "data").rglob("*.warc.gz") for record in answers(file)]
