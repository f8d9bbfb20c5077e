"""Folders that earlier versions of teia made, opened by this one and compared URL by URL with what their maker said.

Each archive of folders/ has a data folder and `urls.jsonl`, the `teia export urls` of the version that made it: a crawl
that was stopped after seven pages, with a redirect, a missing page, a page that robots.txt excludes, and queued URLs.
"""

from __future__ import annotations

import json
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from teia.cli.main import application
from teia.frontier.cell.schema import VERSION

FOLDERS = Path(__file__).with_name("folders")
OPENED = {"format-1": 1, "format-2": 2, "format-3-first": 3, "format-3-last": 3, "format-4-index-2": 4}
SEED = "http://127.0.0.1:8933/"
COMPARED = ("state", "outcome", "depth", "visits", "changes", "last_visit", "digest", "in_links")


def extracted(name: str, folder: Path) -> tuple[Path, dict[str, dict[str, Any]]]:
    """Return a copy of a data folder, and its URLs as the version that made it exported them."""
    with tarfile.open(FOLDERS / f"{name}.tar.xz") as archive:
        archive.extractall(folder)
    return folder / "data", by_url((folder / "urls.jsonl").read_text("utf-8"))


def by_url(lines: str) -> dict[str, dict[str, Any]]:
    rows = map(json.loads, lines.splitlines())
    return {row["url"]: {key: row[key] for key in COMPARED} for row in rows}


def invoke(*words: str) -> Result:
    return CliRunner().invoke(application(words[:1]), list(words))


def teia(*words: str) -> str:
    done = invoke(*words)
    assert done.exit_code == 0, done.output
    return done.stdout


def frontier_version(data: Path) -> int:
    with closing(sqlite3.connect(data / "main/cells/00/frontier.sqlite")) as db:
        return int(db.execute("PRAGMA user_version").fetchone()[0])


def test_every_earlier_format_has_its_folder() -> None:
    assert {path.name.removesuffix(".tar.xz") for path in FOLDERS.iterdir()} == {*OPENED}
    assert {*OPENED.values(), VERSION} == set(range(1, VERSION + 1))


@pytest.mark.parametrize("name", OPENED)
def test_a_folder_of_an_earlier_format_is_upgraded_without_a_loss(name: str, tmp_path: Path) -> None:
    data, before = extracted(name, tmp_path)
    assert len(before) == 15
    assert by_url(teia("export", "urls", "--data", str(data))) == before, "read as it is"
    assert frontier_version(data) == OPENED[name]
    (tmp_path / "list").write_text(f"{SEED}\n", "utf-8")
    teia("import", "urls", str(tmp_path / "list"), "--data", str(data))  # opens the folder for writing
    assert frontier_version(data) == VERSION
    assert by_url(teia("export", "urls", "--data", str(data))) == before
    teia("rebuild", "index", "--data", str(data))
    found = json.loads(teia("search", "market", "--data", str(data), "--json").splitlines()[-1])
    assert SEED in [hit["url"] for hit in found["hits"]]
    assert json.loads(teia("audit", "archive", "--data", str(data), "--json"))["violations"] == 0
    copy = data / f"main/cells/00/frontier.sqlite.v{OPENED[name]}"
    assert copy.exists() == (OPENED[name] != VERSION), "what is migrated is copied first"
