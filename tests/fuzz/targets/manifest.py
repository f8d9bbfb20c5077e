"""The signed list of an archive's files: any line is an entry or a complaint, and an entry is appended after any."""

from __future__ import annotations

from teia.store.manifest import MANIFEST, ManifestEvent, Statement, append, mismatch, read_manifest
from tests.fuzz.pieces import folder

SEEDS = (
    b'{"version": 1, "number": 1, "time": "2024-01-02T03:04:05Z", "event": "closed", "file": "cells/00/archive/x.gz"'
    b', "from": 0, "bytes": 10, "sha256": "ab", "previous": "", "key": "00", "signature": "11"}\n',
    b'{"number": 1e999, "replaces": [[]]}\n[]\nnull\n{"key": "zz"}\n',
    b'{"version": 1, "number": 2, "time": "x", "event": "grew", "file": "../x", "from": -1, "bytes": 1}\n\xff\xfe\n',
)
SAID = Statement(ManifestEvent.CLOSED, "cells/000/archive/a.warc.gz", 0, 1, "ab", 1)


def fuzz_one(data: bytes) -> None:
    collection = folder() / "root" / "main"
    collection.mkdir(parents=True, exist_ok=True)
    path = collection / MANIFEST
    path.write_bytes(data)
    found = read_manifest(collection, must_verify=True)
    assert found.entries == data.count(b"\n")
    assert not any(".." in file.split("/") for file in found.files), "a path out of the collection"
    for signed in found.files.values():
        mismatch(collection, signed)
    append(collection, [SAID], 1.0)
    again = read_manifest(collection, must_verify=True)
    assert again.entries == found.entries + 1
    assert again.complaints == found.complaints, "what was appended is not accepted"
