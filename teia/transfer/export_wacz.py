"""WACZ: a collection as one file that replay tools open: `teia export wacz`.

    archive/*.warc.gz          the WARC files
    indexes/index.cdx.gz       the CDXJ lines of all of them, sorted, in gzip members of BLOCK_LINES
    indexes/index.idx          the first line of each member, with its place
    pages/pages.jsonl          the pages that a reader can begin with
    datapackage.json           size and digest of each file above
    datapackage-digest.json    the digest of that

A replay tool reads single records out of the ZIP file, so WARC files and index members are stored as they are, not
compressed again. The export reads every record once and holds none of the archive in memory.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from typing import IO, BinaryIO
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from isal import igzip_lib

from teia.clock import iso_utc
from teia.crawler.lookup import Lookup
from teia.errors import CorruptFile
from teia.store.cdxj import RUN_LINES, cdxj_line, sorted_lines, timestamp
from teia.store.erase import is_removed
from teia.store.reader import record_of
from teia.store.root import Root
from teia.transfer.export import ExportResult, archive_files, readable_members
from teia.version import __version__

VERSION = "1.1.1"
"""Version of the WACZ specification."""

BLOCK_LINES = 3_000
"""Lines of the index that a replay tool loads together."""

INDEX, BLOCKS, PAGES = "indexes/index.cdx.gz", "indexes/index.idx", "pages/pages.jsonl"
PACKAGE, DIGEST = "datapackage.json", "datapackage-digest.json"
PAGE_TYPES = frozenset({"text/html", "application/xhtml+xml", "application/pdf", "text/plain"})
_COPY_BYTES = 1 << 20


@dataclass(slots=True)
class _CountedFile:
    """A file that is being written, with its size and digest so far."""

    stream: IO[bytes]
    size: int = 0
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)

    def write(self, data: bytes) -> None:
        self.stream.write(data)
        self.digest.update(data)
        self.size += len(data)


@dataclass(slots=True)
class _Package:
    """A WACZ file that is being written."""

    zip_file: ZipFile
    now_s: float
    resources: list[dict[str, str | int]] = field(default_factory=list)

    @contextmanager
    def add(self, path: str, size: int, compression: int = ZIP_STORED) -> Iterator[_CountedFile]:
        """Open a new file of the package, of about this size; one at a time."""
        info = ZipInfo(path, datetime.fromtimestamp(self.now_s, UTC).timetuple()[:6])
        info.compress_type = compression
        info.external_attr = 0o644 << 16
        # Decides whether the header has fields of 64 bits. ReplayWeb.page misreads a small file that has them.
        info.file_size = size
        with self.zip_file.open(info, "w") as stream:
            file = _CountedFile(stream)
            yield file
        name = path.rpartition("/")[2]
        digest = f"sha256:{file.digest.hexdigest()}"
        self.resources.append({"name": name, "path": path, "hash": digest, "bytes": file.size})

    def copy(self, path: str, source: IO[bytes], compression: int = ZIP_STORED) -> None:
        size = source.tell()
        source.seek(0)
        with self.add(path, size, compression) as entry:
            while piece := source.read(_COPY_BYTES):
                entry.write(piece)

    def write(self, path: str, data: bytes) -> None:
        with self.add(path, len(data), ZIP_DEFLATED) as entry:
            entry.write(data)


def export_wacz(root: Root, name: str, file: BinaryIO, now_s: float) -> ExportResult:
    """Write a collection as one WACZ file."""
    done = ExportResult()
    with ZipFile(file, "w") as zip_file, tempfile.TemporaryFile() as index, tempfile.TemporaryFile() as pages:
        package = _Package(zip_file, now_s)
        blocks = _write_index(sorted_lines(_copy_archive(root, name, package, done), RUN_LINES), index)
        package.copy(INDEX, index)
        package.write(BLOCKS, blocks)
        pages.writelines(_page_lines(root, name))
        package.copy(PAGES, pages, ZIP_DEFLATED)
        _write_manifest(package, name)
    return done


def _copy_archive(root: Root, name: str, package: _Package, done: ExportResult) -> Iterator[bytes]:
    """Copy all WARC files into the package; yield the CDXJ lines of the copies."""
    for path, end in archive_files(root, name):
        target = f"{path.name.removesuffix('.gz').removesuffix('.warc')}.warc.gz"
        with package.add(f"archive/{target}", path.stat().st_size) as entry:
            for member, data in readable_members(path, end, done):
                if is_removed(member.data):
                    continue
                try:
                    record = record_of(path, member)
                except CorruptFile:
                    done.damaged += 1
                    continue
                # Damaged records are left out, so a record may lie at another place than in its own file.
                line = cdxj_line(replace(record, file=target, offset=entry.size, length=len(data)))
                entry.write(data)
                done.records += 1
                done.bytes += len(data)
                if line is not None:
                    yield line
        done.files += 1


def _write_index(lines: Iterator[bytes], index: BinaryIO | IO[bytes]) -> bytes:
    """Write sorted lines as gzip members; return the list of the members (ZipNum)."""
    header = {"format": "cdxj-gzip-1.0", "filename": INDEX.rpartition("/")[2]}
    blocks, offset = [f"!meta 0 {json.dumps(header)}\n".encode()], 0
    while block := list(islice(lines, BLOCK_LINES)):
        data = igzip_lib.compress(b"".join(block), 1, igzip_lib.COMP_GZIP)
        place = {
            "offset": offset,
            "length": len(data),
            "digest": f"sha256:{hashlib.sha256(data).hexdigest()}",
            "filename": header["filename"],
        }
        key = b" ".join(block[0].split(b" ", 2)[:2])
        blocks.append(b"%b %b\n" % (key, json.dumps(place).encode()))
        index.write(data)
        offset += len(data)
    return b"".join(blocks)


def _page_lines(root: Root, name: str) -> Iterator[bytes]:
    """Yield the list of pages: those with a good last answer that a browser can show by itself."""
    header = {"format": "json-pages-1.0", "id": "pages", "title": "All Pages"}
    yield json.dumps(header).encode() + b"\n"
    with Lookup(root, name) as lookup:
        for url, _, page in lookup.pages():
            if page.status // 100 != 2 or page.media_type not in PAGE_TYPES:
                continue
            date = iso_utc(page.last_visit_s)
            line = {
                "id": f"{zlib.crc32(url.encode()):08x}{timestamp(page.last_visit_s)}",
                "url": url,
                "ts": date,
                "title": page.title or url,
            }
            yield json.dumps(line).encode() + b"\n"


def _write_manifest(package: _Package, name: str) -> None:
    manifest = {
        "profile": "data-package",
        "wacz_version": VERSION,
        "title": name,
        "software": f"teia {__version__}",
        "created": iso_utc(package.now_s)[:19] + "Z",
        "resources": package.resources,
    }
    text = json.dumps(manifest, indent=2).encode()
    digest = {"path": PACKAGE, "hash": f"sha256:{hashlib.sha256(text).hexdigest()}"}
    package.write(PACKAGE, text)
    package.write(DIGEST, json.dumps(digest, indent=2).encode())
