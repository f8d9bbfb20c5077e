"""Files that are either whole or not there, locks of files, and disk errors in words a person can act on.

A file is replaced by writing another beside it, syncing it, renaming it over the old one and syncing the folder, so
that after a crash or a power loss there is the old file or the new one. The temporary name begins with a dot and is
always the same for a target, so a crash leaves at most one, and the next write takes its place.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from teia.errors import DiskFull, StoreError

# A quota (EDQUOT) and a limit of file size (EFBIG) stop a write like a full disk, and may be lifted like it.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FORBIDDEN = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


def store_error(path: Path, action: str, error: OSError) -> StoreError:
    """Return an error that names the failed operation, the file, and a remedy."""
    if error.errno in _FULL:
        return DiskFull(
            f"{path}: cannot be {action}: no space left on the disk ({error.strerror}); free some space"
            " and run the command again"
        )
    if error.errno in _FORBIDDEN:
        return StoreError(
            f"{path}: cannot be {action}: {error.strerror}; grant write permission, or choose another folder with"
            " --data"
        )
    return StoreError(f"{path}: cannot be {action}: {error.strerror or error}")


@contextlib.contextmanager
def disk_errors(path: Path, action: str) -> Iterator[None]:
    """Translate every OSError of the block into a StoreError about `path`."""
    try:
        yield
    except OSError as error:
        raise store_error(path, action, error) from error


@contextlib.contextmanager
def file_lock(
    path: Path, *, tries: int = 1, pause_s: float = 0.0, mode: int = 0o644, is_signed: bool = False
) -> Iterator[bool]:
    """Hold the lock of a file or a folder for a block; yield False if another process holds it.

    The kernel frees the lock when its holder dies. A file that is missing is made with this `mode`. A holder that
    signs writes its process id into the file.
    """
    with disk_errors(path, "opened"):
        flags = os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT
        descriptor = os.open(path, flags | os.O_CLOEXEC, mode)
    try:
        is_ours = _take_lock(path, descriptor, fcntl.LOCK_EX)
        for _ in range(tries - 1):
            if is_ours:
                break
            time.sleep(pause_s)
            is_ours = _take_lock(path, descriptor, fcntl.LOCK_EX)
        if is_ours and is_signed:
            with disk_errors(path, "written"):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield is_ours
    finally:
        os.close(descriptor)


def _take_lock(path: Path, descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in {errno.EWOULDBLOCK, errno.EACCES}:
            return False
        why = f"cannot be locked: {error.strerror}; check whether it is on a network drive"
        raise StoreError(f"{path}: {why}") from error
    return True


def lock_holder(path: Path) -> int | None:
    """Return the process that holds a file's lock; None if none does, 0 if it did not sign."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        # A shared lock, for an instant: two readers do not take each other for a holder.
        if _take_lock(path, descriptor, fcntl.LOCK_SH):
            return None
        text = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        return int(text) if text.isdigit() else 0
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Make names created, renamed or removed in a folder survive a power loss."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Write a file that appears under its name only when the block has ended well and all is on the disk."""
    temporary = temporary_name(path)
    with disk_errors(path, "written"):
        try:
            with temporary.open("wb") as file:
                yield file
                # 1. The contents first: a rename that survives a power loss without them would leave an empty file.
                file.flush()
                os.fsync(file.fileno())
            # 2. The name: readers see the old file or the new one.
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        # 3. The folder: until it is synced, a power loss may bring the old name back.
        sync_folder(path.parent)


def temporary_name(path: Path) -> Path:
    return path.with_name(f".{path.name}.tmp")


def write_atomically(path: Path, data: bytes) -> None:
    with replacing(path) as file:
        file.write(data)


def exchange_folders(one: Path, other: Path) -> None:
    """Exchange the names of two folders of one file system atomically; a reader of either name finds a whole folder.

    Where the file system cannot do that, `other` has a third name for an instant, which `repair_exchange` knows.
    """
    with disk_errors(one, "replaced"):
        if not _exchange(one, other):
            aside = _aside(one)
            # Three renames; `repair_exchange` repairs a death after the first or the second.
            one.rename(aside)
            try:
                other.rename(one)
            except OSError:
                aside.rename(one)
                raise
            aside.rename(other)
        sync_folder(one.parent)


def repair_exchange(one: Path) -> None:
    """Restore a folder that a death during an exchange left under its third name; or remove it there."""
    aside = _aside(one)
    if not aside.is_dir():
        return
    with disk_errors(one, "replaced"):
        if one.exists():
            shutil.rmtree(aside)
        else:
            aside.rename(one)
        sync_folder(one.parent)


def _aside(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.aside")


# Constants of renameat2(2), which Python's `os` does not have.
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def _exchange(one: Path, other: Path) -> bool:
    """Request Linux to exchange two names; False where it cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):  # a C library without it
        return False
    done = rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)
    if done == 0:
        return True
    number = ctypes.get_errno()
    # An older kernel, or a file system without the exchange.
    if number in {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}:
        return False
    raise OSError(number, os.strerror(number), str(one))
