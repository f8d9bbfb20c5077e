"""`teia search` as a person runs it."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from teia.cluster.search.messages import LibrarianSettings
from teia.cluster.search.processes import librarian_file
from teia.store.root import open_root
from tests.cli.conftest import Teia
from tests.index.pages import indexed, page

PAGES = [
    page("http://a.test/imposto", "O imposto de renda vence em abril.", "Imposto de renda", language="pt"),
    page("http://a.test/carro", "O imposto do carro \x1b[31mvence em janeiro.", "Carro", language="pt"),
    page("http://b.test/tax", "Income tax is due in April.", "Income tax", language="en"),
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    root = open_root(tmp_path / "data", create=True)
    folder = root.create_collection("main", '[collection]\nseeds = ["http://a.test/"]\n', 1)
    (cell,) = folder.cells()
    indexed(cell.index, PAGES)
    from teia.frontier.cell.cell import FrontierCell

    FrontierCell(cell.frontier).close()
    return tmp_path / "data"


def test_results_are_one_json_object_with_the_agreed_keys(teia: Teia, data: Path) -> None:
    done = teia("search", "imposto", "--data", str(data), "--json")
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    said = json.loads(line)
    assert (said["query"], said["total"], said["warnings"]) == ("imposto", 2, [])
    assert said["took_ms"] > 0
    first = said["hits"][0]
    assert (first["rank"], first["url"], first["lang"]) == (1, "http://a.test/imposto", "pt")
    assert first["snippet"] == "O <mark>imposto</mark> de renda vence em abril."
    assert first["last_visit"] == "2023-11-14T22:13:20.000000Z"
    assert first["fresh_probability"] is None
    assert "explanation" not in first


def test_text_is_plain_where_nobody_looks_and_shows_no_escape_of_a_page(teia: Teia, data: Path) -> None:
    done = teia("search", "carro", "--data", str(data))
    assert done.returncode == 0, done.stderr
    assert "http://a.test/carro" in done.stdout
    assert "1 page" in done.stdout
    assert "\x1b" not in done.stdout
    assert not any(line != line.rstrip() for line in done.stdout.splitlines())


def test_marks_are_seen_on_a_terminal(teia: Teia, data: Path) -> None:
    colours = {"NO_COLOR": "", "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    done = teia("search", "imposto", "--data", str(data), environ=colours)
    assert "\x1b[1;33mimposto" in done.stdout


def test_every_part_of_a_score_can_be_seen(teia: Teia, data: Path) -> None:
    done = teia("search", "imposto renda", "--data", str(data), "--explain", "-n", "1")
    assert "impost" in done.stdout
    assert "near" in done.stdout
    assert "authority" in done.stdout
    said = json.loads(teia("search", "imposto", "--data", str(data), "--explain", "--json").stdout)
    assert said["hits"][0]["explanation"]["components"]


def test_facets_expansion_and_language_can_be_requested(teia: Teia, data: Path) -> None:
    words = ("search", "april imposto", "--data", str(data), "--facets", "--expand", "--language", "pt")
    said = json.loads(teia(*words, "--json").stdout)
    assert said["facets"]["host"] == {"a.test": 2, "b.test": 1}
    assert said["languages"] == {"pt": 1.0}
    assert json.loads(teia(*words[:-2], "--lang", "pt", "--json").stdout)["hits"] == said["hits"]
    assert "a.test" in teia(*words).stdout


def test_a_misspelt_word_is_corrected_or_on_request_only_offered(teia: Teia, data: Path) -> None:
    done = teia("search", "impsoto", "--data", str(data))
    assert done.returncode == 0
    assert "Showing results for imposto. To search for impsoto, use --verbatim." in done.stdout
    assert "http://a.test/imposto" in done.stdout
    assert "Did you mean" not in done.stdout
    verbatim = teia("search", "impsoto", "--data", str(data), "--verbatim")
    assert "No page contains impsoto." in verbatim.stdout
    assert "Did you mean imposto (2 pages)?" in verbatim.stdout


def test_what_could_not_be_taken_as_it_was_is_reported_beside_the_results(teia: Teia, data: Path) -> None:
    done = teia("search", '"imposto', "--data", str(data))
    assert "never closed" in done.stderr
    assert "http://a.test/imposto" in done.stdout


def test_a_page_far_away_is_a_message(teia: Teia, data: Path) -> None:
    done = teia("search", "imposto", "--data", str(data), "--offset", "1000000000")
    assert done.returncode == 0
    assert "down to the 1,000th" in done.stderr


@pytest.mark.parametrize(("flag", "value"), [("-n", "0"), ("-n", "1000"), ("--offset", "-1"), ("-n", "many")])
def test_odd_numbers_are_wrong_usage(teia: Teia, data: Path, flag: str, value: str) -> None:
    assert teia("search", "x", "--data", str(data), flag, value).returncode == 2


def test_without_an_index_the_message_says_what_to_do(teia: Teia, tmp_path: Path) -> None:
    root = open_root(tmp_path / "data", create=True)
    root.create_collection("main", '[collection]\nseeds = ["http://a.test/"]\n', 1)
    done = teia("search", "x", "--data", "data")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "main has no index yet" in line
    assert "teia rebuild index" in line


def test_the_query_must_be_given_once(teia: Teia, data: Path) -> None:
    """A folder or a cluster; neither and both are wrong usage."""
    for words, said in (
        ([], "use --data DIR, or --nats URL"),
        (["--data", str(data), "--nats", "nats://127.0.0.1:1"], "use only one of them"),
    ):
        done = teia("search", "imposto", *words)
        assert done.returncode == 2
        assert said in done.stderr


def test_a_cluster_is_not_searched_as_of_a_date(teia: Teia, data: Path) -> None:
    """The folder of a running node has a part of the cluster's pages: an answer from it would be a wrong one."""
    root = open_root(data)
    settings = LibrarianSettings(str(data), "main", "main", "one", ("nats://127.0.0.1:1",), "key", gather_s=1.0)
    librarian_file(root, "main").write_bytes(msgspec.json.encode(settings))
    with root.locked():
        done = teia("search", "imposto", "--data", str(data), "--as-of", "2026-03-31")
    assert done.returncode == 2
    assert "a cluster cannot be searched as of a date" in done.stderr


def test_the_language_of_a_result_is_named(teia: Teia, data: Path) -> None:
    assert "Portuguese · text/html" in teia("search", "imposto", "--data", str(data)).stdout
