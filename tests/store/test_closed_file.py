"""A closed file is described by its size, its digest and its records, whether it has an index or not."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from teia.store.archive import index_path
from teia.store.audit import audit_archive
from teia.store.closed_file import describe, main
from teia.store.reader import walk_file

from .signed_archives import unsigned_archive


def test_the_description_is_the_same_with_and_without_an_index(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = unsigned_archive(tmp_path).files[0]
    found = describe(path)
    assert (found.bytes, found.records) == (path.stat().st_size, len(list(walk_file(path))))
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert index_path(path).exists()
    assert audit_archive(path.parent).violations == 0
    assert main([str(path)]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "bytes": found.bytes,
        "sha256": found.sha256,
        "records": found.records,
    }
