"""What is done once for each closed WARC file: its CDXJ is written, its digest computed, its records counted.

All of that reads the whole file, so `main` does it in a process of its own, with low priority. The digest comes second
and finds the file in memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from teia.store.archive import index_path
from teia.store.cdxj import write_index
from teia.store.manifest import ManifestEvent, Statement, count_records, digest_of, name_in
from teia.store.reader import ArchiveRecord, file_records, ignore_damage


@dataclass(frozen=True, slots=True)
class Description:
    """Size, digest and number of records of a closed file."""

    bytes: int
    sha256: str
    records: int

    def statement(self, collection: Path, path: Path) -> Statement:
        """Return the statement of the manifest about the file."""
        return Statement(ManifestEvent.CLOSED, name_in(collection, path), 0, self.bytes, self.sha256, self.records)


def describe(path: Path) -> Description:
    """Describe a closed file; write its CDXJ if it has none."""
    records = count_records(path) if index_path(path).exists() else _index_and_count(path)
    size, sha256 = digest_of(path)
    return Description(size, sha256, records)


def _index_and_count(path: Path) -> int:
    records = 0

    def counted() -> Iterator[ArchiveRecord]:
        nonlocal records
        for record in file_records(path, ignore_damage):
            records += 1
            yield record

    write_index(path, counted())
    return records


def main(arguments: Sequence[str]) -> int:
    """Print the description of one file as JSON."""
    print(json.dumps(asdict(describe(Path(arguments[0])))))
    return 0
