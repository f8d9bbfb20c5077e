from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from teia.durable import temporary_name
from teia.errors import StoreError
from teia.store.root import FORMAT, RESERVED_NAMES, check_name, open_root


def listing(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


# ---- format ---------------------------------------------------------------------------------------------------------


def test_a_new_folder_becomes_ours(tmp_path: Path) -> None:
    root = open_root(tmp_path / "a" / "b", create=True)
    assert (root.path / "format").read_text() == f"teia {FORMAT}\n"
    assert open_root(root.path) == root == open_root(root.path, create=True)


def test_a_crash_while_making_it_ours_is_no_obstacle(tmp_path: Path) -> None:
    temporary_name(tmp_path / "format").write_bytes(b"te")
    assert open_root(tmp_path, create=True).collections() == ()


@pytest.mark.parametrize("version", [FORMAT + 1, 0, 999])
def test_another_format_is_refused_with_the_way_out(tmp_path: Path, version: int) -> None:
    (tmp_path / "format").write_text(f"teia {version}\n")
    before = listing(tmp_path)
    with pytest.raises(StoreError, match=rf"format {version}, .*teia export.*teia import"):
        open_root(tmp_path, create=True)
    assert listing(tmp_path) == before


@pytest.mark.parametrize("text", ["", "teia", "teia one", "teia 1 2", "\0\0\0\0"])
def test_a_damaged_format_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "format").write_text(text)
    with pytest.raises(StoreError, match="format"):
        open_root(tmp_path)


def test_somebody_elses_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(StoreError, match=r"not a data folder.*thesis\.tex"):
        open_root(tmp_path, create=True)
    assert listing(tmp_path) == ["thesis.tex"]


def test_missing_and_empty_folders_are_not_made_by_reading(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="folder not found"):
        open_root(tmp_path / "none")
    with pytest.raises(StoreError, match="teia crawl"):
        open_root(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="not a folder"):
        open_root(tmp_path / "file", create=True)
    assert listing(tmp_path) == ["file"]


def test_a_folder_that_cannot_be_written_says_so() -> None:
    with pytest.raises(StoreError, match="cannot be") as raised:
        open_root(Path("/proc/teia-data"), create=True)
    assert "\n" not in str(raised.value)


# ---- lock -----------------------------------------------------------------------------------------------------------

HOLD = """
import sys
from pathlib import Path
from teia.store.root import open_root
with open_root(Path(sys.argv[1])).locked():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_is_refused_and_the_holder_is_named(tmp_path: Path) -> None:
    root = open_root(tmp_path, create=True)
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        with pytest.raises(StoreError, match=rf"in use by process {child.pid}.* since .*; .*teia stop"), root.locked():
            pass
        child.kill()
    with root.locked():  # the lock of a killed process is gone with it
        assert (tmp_path / "lock").read_text().strip().isdigit()


def test_the_lock_can_be_taken_again_after_release(tmp_path: Path) -> None:
    root = open_root(tmp_path, create=True)
    with root.locked(), pytest.raises(StoreError, match="in use"), root.locked():
        pass
    with root.locked():
        pass


# ---- collections and cells ------------------------------------------------------------------------------------------

BAD_NAMES = [
    "",
    ".",
    "..",
    "../x",
    "a/b",
    "/etc",
    "a\0b",
    "a" * 300,
    "A",
    "São",
    "ｍain",
    "main\n",
    "-a",
    "_a",
    "a b",
    ".hidden",
    "con:",
    "a\u202eb",
    "control.sqlite",
    *sorted(RESERVED_NAMES),
]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_that_lead_elsewhere_are_refused_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    root = open_root(tmp_path / "data", create=True)
    before = listing(tmp_path)
    with pytest.raises(StoreError, match="cannot be the name of a collection") as raised:
        root.create_collection(name, "", 4)
    assert listing(tmp_path) == before
    assert len(str(raised.value)) < 200
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["main", "0", "a-b_c", "a" * 63])
def test_plain_names_are_taken(name: str) -> None:
    assert check_name(name) == name


def test_a_collection_has_its_cells(tmp_path: Path) -> None:
    root = open_root(tmp_path, create=True)
    collection = root.create_collection("main", "[collection]\n", 12)
    assert root.collections() == ("main",)
    assert collection.config.read_text() == "[collection]\n"
    assert [cell.number for cell in collection.cells()] == list(range(12))
    cell = root.collection("main").cells()[7]
    assert cell.path == tmp_path / "main" / "cells" / "07"
    assert cell.archive.is_dir()
    assert cell.index.is_dir()
    assert cell.log.is_dir()
    assert cell.frontier == cell.path / "frontier.sqlite"


def test_many_cells_are_listed_by_number(tmp_path: Path) -> None:
    collection = open_root(tmp_path, create=True).create_collection("main", "", 120)
    assert [cell.number for cell in collection.cells()] == list(range(120))


def test_a_collection_whose_making_was_interrupted_is_made_again(tmp_path: Path) -> None:
    root = open_root(tmp_path, create=True)
    root.collection("main").path.mkdir()
    assert root.collections() == ()
    root.create_collection("main", "x = 1\n", 2)
    assert root.collections() == ("main",)


def test_a_link_is_no_collection(tmp_path: Path) -> None:
    root = open_root(tmp_path / "data", create=True)
    (tmp_path / "outside").mkdir()
    (root.path / "main").symlink_to(tmp_path / "outside")
    with pytest.raises(StoreError, match="is a symbolic link"):
        root.create_collection("main", "", 1)
    assert listing(tmp_path / "outside") == []


def test_config_is_replaced_whole(tmp_path: Path) -> None:
    collection = open_root(tmp_path, create=True).create_collection("main", "a = 1\n", 1)
    collection.write_config("a = 2\n")
    assert collection.config.read_text() == "a = 2\n"
    assert [path.name for path in collection.path.iterdir() if path.name.startswith(".")] == []
