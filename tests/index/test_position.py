"""The state of an index as its files tell it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from teia.index.position import (
    META_FILE,
    POSITION_FILE,
    SCHEMA_VERSION,
    documents_in,
    has_index,
    read_position,
    write_position,
)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"version": 2}', b'{"version": 2, "position": "x"}'])
def test_a_position_that_cannot_be_read_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / POSITION_FILE).write_bytes(content)
    assert read_position(tmp_path) is None


def test_a_folder_without_an_index_has_no_pages(tmp_path: Path) -> None:
    write_position(tmp_path, 3)
    assert (read_position(tmp_path), has_index(tmp_path), documents_in(tmp_path)) == (3, False, 0)


def test_pages_of_an_index_of_another_version_cannot_be_found(tmp_path: Path) -> None:
    """After an upgrade `teia status` named all pages twice: as searchable and as not indexed yet."""
    (tmp_path / META_FILE).write_text(json.dumps({"segments": [{"max_doc": 18, "deletes": None}]}))
    write_position(tmp_path, 18)
    assert documents_in(tmp_path) == 18
    (tmp_path / POSITION_FILE).write_text(json.dumps({"version": SCHEMA_VERSION - 1, "position": 18}))
    assert (has_index(tmp_path), documents_in(tmp_path)) == (False, 0)


def test_a_crawl_does_not_load_the_library_of_the_index() -> None:
    source = "import sys, teia.cli.crawl.run_crawl; print('tantivy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
