"""teia as a part of another program (T10)."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import teia
from teia.api import FLAGS, flags_of
from teia.clock import WallClock
from teia.config.sections import Config
from teia.config.tree import keys_of
from teia.crawler.loop import Crawler
from teia.crawler.signals_in.follow_source import follow_source
from teia.errors import ConfigError, StoreError, UsageError
from teia.lab.server.process import lab_process
from teia.signals.announce import counts_in
from teia.store.root import open_root
from teia.views.reports.catalogue import find_report
from teia.views.reports.source import open_source
from tests.config.test_extensions import PACKAGES, install

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
PLACE = ("--port", "0", "--address", "127.77.96.1", "--dns-address", "127.77.255.96:0")
ALONE = ("--control-address", "127.77.254.96")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    spec = tmp_path_factory.mktemp("lab") / "world.toml"
    spec.write_text("hosts = 4\npages = 60\n[errors]\nscale = 0\n[robots]\ncrawl_delay = 0\n[sites]\ntheta = 0\n")
    with lab_process("--spec", str(spec), *PLACE, *ALONE) as ready:
        yield ready


def settings(lab: dict[str, Any]) -> dict[str, Any]:
    return {"dns": lab["dns"], "allow_net": ["127.77.0.0/16"], "scope": ["suffix:.test"], "delay": 0.02}


def test_a_crawl_from_python_can_be_read_from_python(lab: dict[str, Any], tmp_path: Path) -> None:
    told: list[teia.Summary] = []
    summary = teia.crawl(lab["seeds"][:1], data=tmp_path / "data", on_progress=told.append, **settings(lab))
    assert (summary.state, summary.politeness_violations) == ("finished", 0)
    assert summary.pages > 40
    assert told
    with teia.open(tmp_path / "data") as collection:
        pages = {page["url"]: page for page in collection.pages()}
        assert len(pages) == summary.pages
        captures = list(collection.captures())
        assert [(each["url"], each["digest"]) for each in captures] == [
            (url, page["digest"]) for url, page in pages.items()
        ]
        assert list(collection.captures(lab["seeds"][0])) == [
            each for each in captures if each["url"] == lab["seeds"][0]
        ]
        with pytest.deprecated_call(match=r"use Collection\.capture"):
            collection.copy(lab["seeds"][0])
        assert sum(each["state"] == "done" for each in collection.urls()) >= summary.pages
        view = collection.page(lab["seeds"][0])
        assert view.digest == pages[view.url]["digest"]
        assert b"<html" in collection.capture(view.url).payload
        assert collection.capture(view.url, pages[view.url]["last_visit_s"]) == collection.capture(view.url)
        assert (view.url, view.links_out[0]) in set(collection.links())
        assert collection.sql("SELECT count(*) FROM fetches").rows == [(summary.requests,)]
        assert collection.audit_politeness().checked == summary.requests
        assert collection.audit_archive().violations == 0
        assert collection.account()["requests"] == summary.requests
        assert collection.settings.courtesy.delay_s == 0.02
        with pytest.raises(StoreError, match="no capture"):
            collection.capture("http://nowhere.test/")


def test_extensions_take_part_in_a_crawl(lab: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "packages").mkdir()
    for package in PACKAGES:
        install(package, tmp_path / "packages")
    monkeypatch.syspath_prepend(tmp_path / "packages")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "packages"), os.environ.get("PYTHONPATH", "")]))
    data, seed = tmp_path / "data", lab["seeds"][0]
    own = {"order": "least-linked", "exclude": ["py:session-url"], "parse": {"processors": ["text/html=markdown"]}}
    first = teia.crawl(seed, data=data, max_pages=10, **settings(lab), **own)
    root = open_root(data)
    with open_source(root, "main") as source:
        report: Any = find_report("suffixes")(source, 10)
        assert report.requests == sum(row.requests for row in report.rows) >= first.pages
        assert report.rows[0].domain == "test"
    follow_source(root.collection("main").signals, [seed], WallClock())
    teia.crawl(data=data, max_pages=5, **settings(lab))
    assert counts_in(root.collection("main").signals)["source"] == {"received": 1, "taken": 1}
    with teia.open(data) as collection:
        assert len(list(collection.captures(seed))) == 2, "a page that a source reports is visited again"


def example(name: str) -> Any:
    """A module of examples/; they are scripts, and in no package."""
    spec = spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_search_engine_collects_a_host_and_portuguese_elsewhere(lab: dict[str, Any], tmp_path: Path) -> None:
    engine = example("search_engine")
    summary = engine.collect(lab, tmp_path)
    assert summary.outcomes["out_of_scope"] > 0
    home = urlsplit(lab["seeds"][0]).hostname
    with teia.Collection(tmp_path) as collection:
        states = {each["url"]: each["outcome"] for each in collection.urls()}
        kept = [page for page in collection.pages() if page["lang"] and states[page["url"]] == "200"]
        elsewhere = {page["lang"] for page in kept if urlsplit(page["url"]).hostname != home}
        ranks = [each["pagerank"] for each in collection.urls()]
    assert elsewhere == {"pt"}
    assert sum(ranks) == pytest.approx(1, abs=0.01)
    found = engine.answer(tmp_path, "a")
    assert found
    assert all(rank > 0 for rank, _, _ in found)


def test_an_archive_hands_over_what_it_was_given(lab: dict[str, Any], tmp_path: Path) -> None:
    archive = example("web_archive")
    summary = archive.deposit(lab, tmp_path / "data")
    assert archive.hand_over(tmp_path / "data", tmp_path / "deposit.warc.gz") > summary.pages
    with teia.Collection(tmp_path / "data") as collection:
        kinds = {page["type"] for page in collection.pages()}
        assert {"text/html", "image/png", "text/css"} <= kinds
        assert collection.page(lab["seeds"][0]).versions
        assert all(each["pagerank"] is None for each in collection.urls()), "nothing was ranked"


def test_a_second_crawl_goes_on_where_the_first_stopped(lab: dict[str, Any], tmp_path: Path) -> None:
    first = teia.crawl(lab["seeds"][:1], data=tmp_path, max_pages=10, **settings(lab))
    assert (first.state, first.pages) == ("limit", 10)
    second = teia.crawl(data=tmp_path, limits={"pages": 0}, **settings(lab))
    assert second.state == "finished"
    with teia.Collection(tmp_path) as collection:
        assert len(list(collection.pages())) == first.pages + second.pages


def test_a_cancelled_crawl_leaves_everything_committed(lab: dict[str, Any], tmp_path: Path) -> None:
    async def half_a_crawl() -> None:
        enough = asyncio.Event()
        crawl = teia.crawl_async(
            lab["seeds"][:1],
            data=tmp_path,
            on_progress=lambda now: enough.set() if now.pages >= 5 else None,
            **(settings(lab) | {"delay": 0.3}),
        )
        task = asyncio.create_task(crawl)
        await enough.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(half_a_crawl())
    with open_root(tmp_path).locked(), teia.Collection(tmp_path) as collection:
        assert len(list(collection.pages())) >= 5
        assert collection.audit_archive().violations == 0


def test_what_progress_raises_ends_the_crawl_and_is_raised(lab: dict[str, Any], tmp_path: Path) -> None:
    def too_much(now: teia.Summary) -> None:
        if now.pages:
            raise OverflowError("enough")

    with pytest.raises(OverflowError, match="enough"):
        teia.crawl(lab["seeds"][:1], data=tmp_path, on_progress=too_much, **(settings(lab) | {"delay": 0.3}))
    assert teia.crawl(data=tmp_path, **settings(lab)).state == "finished"


def test_inside_a_loop_crawl_says_what_to_await(tmp_path: Path) -> None:
    async def wrong() -> None:
        teia.crawl(["http://a.test/"], data=tmp_path)

    with pytest.raises(UsageError, match="crawl_async"):
        asyncio.run(wrong())


def test_wrong_settings_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no setting 'speed'"):
        teia.crawl(["http://a.test/"], data=tmp_path, speed=11)
    with pytest.raises(ConfigError, match=r"limits\.page"):
        teia.crawl(["http://a.test/"], data=tmp_path, limits={"page": 1})
    assert set(FLAGS.values()) <= set(keys_of(Config))
    assert flags_of("http://a.test/", {})["collection.seeds"] == ["http://a.test/"]


def test_the_package_can_be_called_and_imported_from() -> None:
    assert callable(teia.crawl)
    assert Crawler.__module__ == "teia.crawler.loop"
    assert set(teia.__all__) <= {
        *dir(teia),
        "Collection",
        "Summary",
        "TeiaError",
        "crawl",
        "crawl_async",
        "open",
        "rebuild_index",
    }
    for name in teia.__all__:
        assert getattr(teia, name)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        teia.nothing  # noqa: B018  # asking for it is the point


def test_importing_teia_imports_nothing_heavy() -> None:
    source = "import sys, teia; print(*sorted(name for name in sys.modules if name.startswith('teia')))"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["teia", "teia.version"]


@pytest.mark.slow
@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_examples_run(example: Path) -> None:
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert "pages" in done.stdout
