"""What scripts/conformance fetches, and what tests say where nothing was fetched."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.conformance import upstream

ROWS = {"one.json": b"[1]\n", "deep/two.csv": b"a, b\n"}


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder, and counts what was requested."""

    asked: list[str]

    def log_message(self, *_words: object) -> None:
        self.asked.append(self.path)


@pytest.fixture
def manifest() -> dict[str, Any]:
    files = "".join(f"{upstream.digest_of(body)} url/{name} cases/{name}\n" for name, body in ROWS.items())
    return {"source": [{"repository": "some/suite", "commit": "0badcafe", "files": files}]}


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """The folder of a repository as its host shows it."""
    folder = tmp_path / "host" / "some" / "suite" / "raw" / "0badcafe" / "cases"
    for name, body in ROWS.items():
        upstream.write(folder / name, body)
    return folder


@pytest.fixture
def base(there: Path, tmp_path: Path) -> Iterator[tuple[str, list[str]]]:
    Quiet.asked = []
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "host"))) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", Quiet.asked
        finally:
            server.shutdown()
            thread.join()


def test_files_are_fetched_once(manifest: dict[str, Any], base: tuple[str, list[str]], tmp_path: Path) -> None:
    assert upstream.fetch_all(tmp_path / "data", manifest, base[0]) == (2, [])
    assert {name: (tmp_path / "data" / "url" / name).read_bytes() for name in ROWS} == ROWS
    (tmp_path / "data" / "url" / "one.json").write_bytes(b"changed here")
    assert upstream.fetch_all(tmp_path / "data", manifest, base[0]) == (1, [])
    assert (tmp_path / "data" / "url" / "one.json").read_bytes() == ROWS["one.json"]
    assert len(base[1]) == 3


def test_another_file_than_the_named_one_is_refused(
    manifest: dict[str, Any], base: tuple[str, list[str]], there: Path, tmp_path: Path
) -> None:
    (there / "one.json").write_bytes(b"[2]\n")
    (there / "deep" / "two.csv").unlink()
    number, errors = upstream.fetch_all(tmp_path / "data", manifest, base[0])
    assert number == 0
    assert "one.json: its digest is" in errors[0]
    assert "two.csv: HTTP Error 404" in errors[1]
    assert not [path for path in (tmp_path / "data").rglob("*") if path.is_file()]


def test_every_file_that_tests_use_is_fetched_or_made_by_hand(conformance: Path) -> None:
    manifest = tomllib.loads(upstream.MANIFEST.read_text("utf-8"))
    files = [*upstream.files_of(manifest), upstream.File(manifest["protego"]["files_sha256"], upstream.REAL_FILES, "")]
    assert [file.name for file in files if not file.is_there(conformance)] == []
    names = {str(path.relative_to(conformance)) for path in conformance.rglob("*") if path.is_file()}
    assert names - {file.name for file in files} - set(upstream.BY_HAND) - {"README.md"} == set()


def test_every_file_has_a_fixed_version() -> None:
    addresses = [file.address for file in upstream.files_of(tomllib.loads(upstream.MANIFEST.read_text("utf-8")))]
    assert len(addresses) > 50
    assert [
        each for each in addresses if not re.match(r"https://github\.com/[\w-]+/[\w-]+/raw/[0-9a-f]{7,40}/", each)
    ] == []


def test_cases_are_chosen_by_bits() -> None:
    assert list(upstream.bits("1\na")) == [True, False, True, False]
    with pytest.raises(upstream.Refused):
        upstream.cases_of([["User-agent: *", "teia", "http://host/", True]], {
            "cases": "3", "core": "2", "first_id": "7", "cases_sha256": "0",
        })  # fmt: skip


def test_what_is_not_there_is_said_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TEIA_CONFORMANCE", str(tmp_path / "none"))
    assert upstream.absence() == f"test data is not at {tmp_path / 'none'}; scripts/conformance fetches it"
    assert "put together by hand" in upstream.absence("html/srcset.json")
