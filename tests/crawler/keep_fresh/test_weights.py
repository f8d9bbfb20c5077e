"""What makes a page important."""

from __future__ import annotations

from pathlib import Path

import pytest

from teia.config.sections import RefreshSettings
from teia.crawler.keep_fresh.weights import weigher
from teia.errors import ConfigError, TeiaError
from teia.urls import key_of
from tests.crawler.keep_fresh.test_host_plan import held, seen

URL = "http://example.org/a"


def test_all_weigh_the_same_unless_somebody_says_otherwise(tmp_path: Path) -> None:
    pages = [held(1), held(2)._replace(in_links=9)]
    assert weigher(RefreshSettings(), tmp_path / "none")(pages).tolist() == [1.0, 1.0]
    assert weigher(RefreshSettings(weights="in_links"), tmp_path / "none")(pages).tolist() == [2.0, 10.0]


def test_pages_may_matter_by_how_often_they_change(tmp_path: Path) -> None:
    """Of five daily visits four, one and none found a change; a page that was not revisited weighs 1."""
    weigh = weigher(RefreshSettings(weights="changes"), tmp_path / "none")
    pages = [
        held(1, seen(4, 5)),
        held(2, seen(1, 5)),
        held(3, seen(0, 5)),
        held(4),
        held(5, seen(4, 5, every_s=3600.0)),
    ]
    assert weigh(pages).tolist() == pytest.approx([5 / 6, 2 / 6, 1 / 6, 1.0, 5 / (1 + 5 / 24)])


def test_without_ranks_links_count(tmp_path: Path) -> None:
    weigh = weigher(RefreshSettings(weights="pagerank"), tmp_path / "none")
    assert weigh([held(1), held(2)._replace(in_links=9)]).tolist() == [2.0, 10.0]


def test_a_file_says_what_pages_weigh(tmp_path: Path) -> None:
    file = tmp_path / "weights.txt"
    file.write_text(f"# important\n{URL} 5\nexample.org/b\t0.5\n\n", "utf-8")
    weigh = weigher(RefreshSettings(weights="file", weights_file=str(file)), tmp_path)
    pages = [held(key_of(URL)), held(key_of("http://example.org/b")), held(key_of("https://example.org/b")), held(3)]
    assert sorted(weigh(pages).tolist()) == [0.5, 1.0, 1.0, 5.0]


@pytest.mark.parametrize("line", ["http://example.org/a", "http://example.org/a -1", "http://example.org/a nan", "5"])
def test_a_line_that_is_none_is_named(line: str, tmp_path: Path) -> None:
    file = tmp_path / "weights.txt"
    file.write_text(f"{URL} 5\n{line}\n", "utf-8")
    with pytest.raises(ConfigError, match=r"weights.txt, line 2"):
        weigher(RefreshSettings(weights="file", weights_file=str(file)), tmp_path)


def test_a_file_that_is_missing_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(TeiaError, match=r"nothing\.txt"):
        weigher(RefreshSettings(weights="file", weights_file=str(tmp_path / "nothing.txt")), tmp_path)
