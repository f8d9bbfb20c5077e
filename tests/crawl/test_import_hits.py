"""Access logs become weights and new pages of a collection."""

from __future__ import annotations

from pathlib import Path

import pytest

from teia.clock import WallClock
from teia.config import RefreshSettings
from teia.crawl.collections import configure
from teia.crawl.import_hits import TakenIn, hits_file, read_hits, take_in
from teia.crawl.importing import open_target
from teia.crawl.weights import weigher
from teia.errors import UsageError
from teia.frontier.revisits import Held
from teia.store.root import Root, open_root
from teia.urls import key_of

LINE = '10.0.0.9 - - [14/Nov/2023:22:13:20 +0000] "GET {} HTTP/1.1" 200 512 "-" "x"\n'


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = open_root(tmp_path / "data", create=True)
    configure(root, "main", None, {}, {"collection.seeds": ["http://a.test/"], "collection.cells": 1})
    return root


def taken(root: Root, *files: Path) -> TakenIn:
    with root.locked(), open_target(root, "main", WallClock()) as target:
        return take_in(target, root.collection("main"), files, None, "http://a.test/")


def log(path: Path, *targets: str) -> Path:
    path.write_text("".join(LINE.format(target) for target in targets), "utf-8")
    return path


def test_pages_that_are_asked_for_are_found_and_weigh_more(root: Root, tmp_path: Path) -> None:
    done = taken(root, log(tmp_path / "one.log", "/a", "/a?user=7", "/b", "http://other.test/x"))
    assert (done.hits, done.urls, done.urls_new, done.out_of_scope) == (3, 2, 2, 1)
    weigh = weigher(RefreshSettings(weights="hits"), root.collection("main").ranks)
    pages = [Held(key_of(f"http://a.test/{name}"), "", 0, 0, "", 200, 1, 2, 0, 0, 0.0, 0.0, b"") for name in "abc"]
    assert weigh(pages).tolist() == [3.0, 2.0, 1.0]
    assert "user" not in hits_file(root.collection("main")).read_text("utf-8")


def test_the_same_log_counts_once_and_another_adds_up(root: Root, tmp_path: Path) -> None:
    first = log(tmp_path / "one.log", "/a")
    taken(root, first)
    again = taken(root, first, log(tmp_path / "two.log", "/a", "/a"))
    assert (again.skipped, again.files, again.urls_new) == (1, 1, 0)
    assert read_hits(hits_file(root.collection("main")))[0] == {"http://a.test/a": 3}


def test_a_file_that_is_no_log_is_refused_in_one_line(root: Root, tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    path.write_bytes(b"\xff\xd8\xff" * 500)
    with pytest.raises(UsageError, match="neither a Squid log"):
        taken(root, path)
