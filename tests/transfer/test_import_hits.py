"""Access logs become weights and new pages of a collection."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from teia.clock import WallClock
from teia.collections.settings import configure
from teia.config.sections import RefreshSettings
from teia.crawler.keep_fresh.weights import MARK, hits_file, read_hits, weigher
from teia.errors import UsageError
from teia.frontier.cell.revisits import CapturedPage
from teia.store.root import Root, open_root
from teia.transfer.import_data import open_target
from teia.transfer.import_hits import HitsImport, import_hits
from teia.urls import key_of

LINE = '10.0.0.9 - - [14/Nov/2023:22:13:20 +0000] "GET {} HTTP/1.1" 200 512 "-" "x"\n'


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = open_root(tmp_path / "data", create=True)
    configure(root, "main", None, {}, {"collection.seeds": ["http://a.test/"], "collection.cells": 1})
    return root


def taken(root: Root, *files: Path) -> HitsImport:
    with root.locked(), open_target(root, "main", WallClock()) as target:
        return import_hits(target, root.collection("main"), files, None, "http://a.test/")


def hits_of(root: Root) -> dict[str, int]:
    return dict(read_hits(hits_file(root.collection("main")))[0])


def log(path: Path, *targets: str) -> Path:
    path.write_text("".join(LINE.format(target) for target in targets), "utf-8")
    return path


def test_pages_that_are_requested_are_found_and_weigh_more(root: Root, tmp_path: Path) -> None:
    done = taken(root, log(tmp_path / "one.log", "/a", "/a?user=7", "/b", "http://other.test/x"))
    assert (done.hits, done.urls, done.urls_new, done.out_of_scope) == (3, 2, 2, 1)
    weigh = weigher(RefreshSettings(weights="hits"), root.collection("main").ranks)
    pages = [
        CapturedPage(key_of(f"http://a.test/{name}"), "", 0, 0, "", 200, 1, 2, 0, 0, 0.0, 0.0, b"") for name in "abc"
    ]
    assert weigh(pages).tolist() == [3.0, 2.0, 1.0]
    assert "user" not in hits_file(root.collection("main")).read_text("utf-8")


def test_the_same_log_counts_once_and_another_adds_up(root: Root, tmp_path: Path) -> None:
    first = log(tmp_path / "one.log", "/a")
    taken(root, first)
    again = taken(root, first, log(tmp_path / "two.log", "http://other.test/x", "/a", "/a"))
    assert (again.skipped, again.files, again.urls_new) == (1, 1, 0)
    assert hits_of(root)["http://a.test/a"] == 3


def test_a_log_that_has_grown_adds_only_what_is_new_under_whatever_name(root: Root, tmp_path: Path) -> None:
    """As logs are rotated: read while it is written, then renamed, then compressed."""
    taken(root, log(tmp_path / "access.log", "/a", "/b"))
    grown = taken(root, log(tmp_path / "access.log.1", "/a", "/b", "/a"))
    assert (grown.files, grown.lines, grown.hits) == (1, 1, 1)
    packed = tmp_path / "access.log.2.gz"
    packed.write_bytes(gzip.compress((tmp_path / "access.log.1").read_bytes()))
    again = taken(root, packed, tmp_path / "access.log")
    assert (again.skipped, again.files, again.lines, again.hits) == (2, 0, 0, 0)
    assert hits_of(root) == {"http://a.test/a": 2, "http://a.test/b": 1}


def test_a_log_whose_compression_is_torn_counts_once_and_its_whole_adds_the_rest(root: Root, tmp_path: Path) -> None:
    plain = log(tmp_path / "plain", *(f"/{number}" for number in range(3_000))).read_bytes()
    torn, whole = tmp_path / "torn.gz", tmp_path / "whole.gz"
    whole.write_bytes(gzip.compress(plain))
    torn.write_bytes(whole.read_bytes()[:-4_000])
    first = taken(root, torn)
    assert first.torn == 1
    assert 0 < first.hits < 3_000
    assert taken(root, torn).skipped == 1
    assert taken(root, whole).hits == 3_000 - first.hits


def test_a_mark_is_no_hit_whatever_stands_in_it(root: Root) -> None:
    path = hits_file(root.collection("main"))
    path.write_text(f"{MARK}12 1234567812345678\n{MARK}12 abc access log 1\n{MARK}x 1\nhttp://a.test/a 4\n", "utf-8")
    hits, marks = read_hits(path)
    assert hits == {"http://a.test/a": 4}
    assert [mark.size for mark in marks] == [12, 12]


def test_a_file_that_is_no_log_is_refused_in_one_line(root: Root, tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    path.write_bytes(b"\xff\xd8\xff" * 500)
    with pytest.raises(UsageError, match="neither a Squid log"):
        taken(root, path)


def test_a_log_without_a_line_is_counted_and_nothing_is_asked_of_its_format(root: Root, tmp_path: Path) -> None:
    blank, packed = tmp_path / "blank.log", tmp_path / "packed.log.gz"
    blank.write_text("\n\n", "utf-8")
    packed.write_bytes(gzip.compress(b""))
    done = taken(root, log(tmp_path / "empty.log"), blank, packed, log(tmp_path / "one.log", "/a"))
    assert (done.empty, done.files, done.hits) == (3, 1, 1)
