"""Temporary folders. What a killed process leaves behind is removed when another process makes such a folder.

A process locks its folders, and the kernel undoes that when the process ends. `ScratchFolder` first removes the folders
of the same prefix that are not locked. An empty one stays, because its process may be about to lock it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import weakref
from contextlib import nullcontext, suppress
from pathlib import Path
from threading import Lock

from teia.lib.closing import Closing


class ScratchFolder(Closing):
    """A temporary folder, removed by `close`, with this object, or at the end of the process.

    It is removed under `lock`, if there is one.
    """

    def __init__(self, prefix: str, parent: str | None = None, lock: Lock | None = None) -> None:
        parent = parent or tempfile.gettempdir()
        remove_abandoned(prefix, parent)
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        try:
            descriptor = _open(self.path)
        except OSError:
            self.path.rmdir()
            raise
        with suppress(OSError):  # a file system without locks; then no process removes folders of another
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # waits while another one looks whether the folder is empty
        self._remove = weakref.finalize(self, _remove, self.path, descriptor, lock)

    @property
    def is_closed(self) -> bool:
        return not self._remove.alive

    def close(self) -> None:
        self._remove()


def remove_abandoned(prefix: str, parent: str) -> None:
    """Remove the folders of this prefix whose processes have ended."""
    for folder in Path(parent).glob(f"{prefix}*"):
        with suppress(OSError):
            descriptor = _open(folder)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if any(folder.iterdir()):
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)


def _open(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _remove(folder: Path, descriptor: int, lock: Lock | None) -> None:
    with lock or nullcontext():
        shutil.rmtree(folder, ignore_errors=True)
    os.close(descriptor)
