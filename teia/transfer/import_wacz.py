"""Import of WACZ files: their WARC files are unpacked and imported, indexes and pages are made from them anew."""

from __future__ import annotations

import hashlib
import json
import lzma
import re
import shutil
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from zipfile import BadZipFile, ZipFile, ZipInfo

from teia.durable import disk_errors
from teia.errors import DiskFull, StoreError
from teia.transfer.import_data import ImportResult, Target
from teia.transfer.import_warc import hosts_of_archives, import_warc

PACKAGE = "datapackage.json"
MAX_PACKAGE_BYTES = 64 << 20
"""Largest list of files that is read; a small ZIP file may hold one of gigabytes."""

_COPY_BYTES = 1 << 20
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]")


async def import_wacz(target: Target, files: Sequence[Path], done: ImportResult) -> None:
    """Import the WARC files of WACZ files; indexes and pages are made from them anew."""
    with unpacked(files, done) as archives:
        await import_warc(target, archives, done)


def hosts_of_packages(files: Sequence[Path]) -> set[str]:
    """Return the hosts whose pages WACZ files hold."""
    with unpacked(files, ImportResult("")) as archives:
        return hosts_of_archives(archives)


@contextmanager
def unpacked(files: Sequence[Path], done: ImportResult) -> Iterator[list[Path]]:
    """Extract the WARC files of WACZ files into a temporary folder; those with a wrong digest are reported."""
    with tempfile.TemporaryDirectory(prefix="teia-wacz-") as folder:
        archives: list[Path] = []
        for path in files:
            with disk_errors(path, "read"), _open_package(path) as zip_file:
                digests = _digests_of(path, zip_file)
                for info in zip_file.infolist():
                    if info.filename.startswith("archive/") and info.filename.endswith((".warc.gz", ".warc")):
                        # Numbered: names inside a package are its maker's, and two packages may use the same.
                        given = _NO_NAME.sub("_", info.filename.rpartition("/")[2][-100:])
                        to = Path(folder) / f"{len(archives):05d}-{given}"
                        _extract(path, zip_file, info, to, digests.get(info.filename, ""), done)
                        archives.append(to)
        yield archives


@contextmanager
def _open_package(path: Path) -> Iterator[ZipFile]:
    try:
        with ZipFile(path) as zip_file:
            yield zip_file
    # RuntimeError: it is encrypted, or compressed in a way that zipfile does not know.
    except (BadZipFile, RuntimeError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise StoreError(f"{path}: cannot be read as a WACZ file: {error}") from error


def _digests_of(path: Path, zip_file: ZipFile) -> dict[str, str]:
    """Return the digests that a package declares for its files."""
    try:
        info = zip_file.getinfo(PACKAGE)
        if info.file_size > MAX_PACKAGE_BYTES:
            raise StoreError(f"{path}: its {PACKAGE} has more than {MAX_PACKAGE_BYTES:,} bytes")
        manifest = json.loads(zip_file.read(info))
        return {str(each["path"]): str(each.get("hash", "")) for each in manifest["resources"]}
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        raise StoreError(f"{path}: is not a WACZ file: it has no {PACKAGE} with a list of its files") from None


def _extract(path: Path, zip_file: ZipFile, info: ZipInfo, to: Path, declared: str, done: ImportResult) -> None:
    # A small file may claim to hold terabytes.
    if info.file_size > shutil.disk_usage(to.parent).free:
        raise DiskFull(f"{to.parent}: too little space to unpack {info.filename} of {path}; set TMPDIR to another disk")
    algorithm = declared.partition(":")[0]
    digest = hashlib.new(algorithm if algorithm in {"sha256", "md5", "sha512", "sha1"} else "sha256")
    with zip_file.open(info) as source, to.open("wb") as target:
        while piece := source.read(_COPY_BYTES):
            digest.update(piece)
            target.write(piece)
    if declared and declared != f"{algorithm}:{digest.hexdigest()}":
        done.mismatched += 1
        done.add_detail(f"{path}: {info.filename}: the digest does not match")
