"""Temporary folders are removed, also those of processes that were killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from teia.lib.scratch import ScratchFolder, remove_abandoned

STARTED = """
import sys, time
from teia.lib.scratch import ScratchFolder
folder = ScratchFolder("scratch-", sys.argv[1])
(folder.path / "file").touch()
print("made", flush=True)
time.sleep(100)
"""


def test_a_folder_is_removed_with_its_files_when_it_is_closed(tmp_path: Path) -> None:
    with ScratchFolder("scratch-", str(tmp_path)) as folder:
        (folder.path / "file").touch()
        assert folder.path.parent == tmp_path
        assert not folder.is_closed
    assert folder.is_closed
    assert list(tmp_path.iterdir()) == []
    folder.close()


def test_the_folder_of_a_process_that_was_killed_is_removed_by_the_next_one(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", STARTED, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"made\n"
        with ScratchFolder("scratch-", str(tmp_path)):
            assert len(list(tmp_path.iterdir())) == 2, "its process runs"
        process.kill()
    assert len(list(tmp_path.iterdir())) == 1
    ScratchFolder("scratch-", str(tmp_path)).close()
    assert list(tmp_path.iterdir()) == []


def test_only_folders_of_the_prefix_that_are_in_nobodys_hands_are_removed(tmp_path: Path) -> None:
    for name in ("scratch-1", "other-1", "target"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    (tmp_path / "scratch-empty").mkdir()  # its process may be about to lock it
    (tmp_path / "scratch-link").symlink_to(tmp_path / "target")
    (tmp_path / "scratch-file").touch()
    remove_abandoned("scratch-", str(tmp_path))
    left = {"other-1", "target", "scratch-empty", "scratch-link", "scratch-file"}
    assert {path.name for path in tmp_path.iterdir()} == left
    assert (tmp_path / "target" / "file").exists()


def test_a_folder_is_locked_by_its_own_process_too(tmp_path: Path) -> None:
    with ScratchFolder("scratch-", str(tmp_path)) as folder:
        (folder.path / "file").touch()
        remove_abandoned("scratch-", str(tmp_path))
        assert folder.path.exists()
