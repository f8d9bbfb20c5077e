"""What is exported is what was committed, whole, and nothing that is there is touched."""

from __future__ import annotations

import io
import json
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from warcio.archiveiterator import ArchiveIterator

from teia.crawler.fetch_rows import fetch_log
from teia.errors import DiskFull, StoreError, UsageError
from teia.store.parquet import SCHEMA
from teia.store.reader import ArchiveReader
from teia.store.root import Root, open_root
from teia.transfer.export import (
    archive_files,
    cdxj_lines,
    check_target,
    export_log,
    export_warc,
    export_warc_folder,
    graph_lines,
    new_file,
)
from tests.crawler.crawled import Crawled


def record_ids(data: bytes) -> list[str]:
    """What another reader finds."""
    return [record.rec_headers.get_header("WARC-Record-ID") for record in ArchiveIterator(io.BytesIO(data))]


def whole(root: Root) -> bytes:
    out = io.BytesIO()
    export_warc(root, "main", out)
    return out.getvalue()


@pytest.fixture
def copied(crawled: Crawled, tmp_path: Path) -> Root:
    shutil.copytree(crawled.data, tmp_path / "data")
    return open_root(tmp_path / "data")


def test_one_file_and_a_folder_hold_every_record(crawled: Crawled, tmp_path: Path) -> None:
    done = export_warc_folder(crawled.root, "main", tmp_path / "out")
    files = sorted((tmp_path / "out").iterdir())
    assert len(files) == done.files == 4
    in_folder = [each for path in files for each in record_ids(path.read_bytes())]
    assert in_folder == record_ids(whole(crawled.root))
    assert len(in_folder) == done.records == crawled.summary["archive_records"] + 4  # a warcinfo for each file
    assert len(set(in_folder)) == len(in_folder)


def test_what_a_crawler_has_not_committed_is_left_out(copied: Root) -> None:
    before = whole(copied)
    path, end = next(archive_files(copied, "main"))
    assert end is not None
    with path.open("ab") as file:
        file.write(path.read_bytes()[:end])
    shutil.copy(path, path.with_name(path.name.replace("00001.warc", "00002.warc")))
    assert whole(copied) == before
    with cdxj_lines(copied, "main") as lines:
        assert all(b"00002.warc" not in line for line in lines)


def test_a_damaged_record_costs_only_itself(copied: Root, tmp_path: Path) -> None:
    records = len(record_ids(whole(copied)))
    path = max((path for path, _ in archive_files(copied, "main")), key=lambda path: path.stat().st_size)
    record = [record for record in ArchiveReader(path.parent).records() if record.kind == "response"][1]
    with path.open("r+b") as file:
        file.seek(record.offset + record.length // 2)
        file.write(b"\xff" * 8)
    out = io.BytesIO()
    done = export_warc(copied, "main", out)
    assert (done.damaged, done.records) == (1, records - 1)
    assert len(record_ids(out.getvalue())) == records - 1


def test_index_is_sorted_and_finds_every_answer_in_the_exported_folder(crawled: Crawled, tmp_path: Path) -> None:
    export_warc_folder(crawled.root, "main", tmp_path / "out")
    with cdxj_lines(crawled.root, "main") as lines:
        index = list(lines)
    assert index == sorted(index)
    reader = ArchiveReader(tmp_path / "out")
    for line in index:
        fields = json.loads(line.split(b" ", 2)[2])
        record = reader.read(fields["filename"], int(fields["offset"]))
        assert (record.url, record.length) == (fields["url"], int(fields["length"]))
    assert len(index) == sum(record.kind in {"response", "revisit"} for record in reader.records())


def test_log_is_one_parquet_file_with_every_row(crawled: Crawled, tmp_path: Path) -> None:
    with new_file(tmp_path / "log.parquet") as file:
        export_log(crawled.root, "main", file)
    table = pq.read_table(tmp_path / "log.parquet")
    assert table.schema.equals(SCHEMA)
    with fetch_log(crawled.root, "main") as log:
        rows = log.query("SELECT url, started FROM fetches").rows
    assert sorted(zip(table["url"].to_pylist(), table["started"].to_pylist(), strict=True)) == sorted(rows)


def test_graph_has_the_links_that_the_lab_says_there_are(crawled: Crawled) -> None:
    edges = {tuple(line.decode().rstrip("\n").split("\t")) for line in graph_lines(crawled.root, "main")}
    read = {url for url, each in crawled.urls.items() if each["outcome"] == "200" and url in crawled.truth}
    true = {(url, link) for url in read for link in crawled.truth[url]["links"] if link != url}
    assert len(true) > 500
    assert true - edges == set()
    assert all(source != target for source, target in edges)


# ---- where it goes --------------------------------------------------------------------------------------------------


@contextmanager
def small_files(limit_bytes: int) -> Iterator[None]:
    """No file may grow beyond this; what a full disk looks like to who writes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_reported_in_a_line_and_leaves_nothing(crawled: Crawled, tmp_path: Path) -> None:
    with (
        pytest.raises(DiskFull, match="no space left") as refused,
        small_files(50_000),
        new_file(tmp_path / "x") as file,
    ):
        export_warc(crawled.root, "main", file)
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_reported_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file" / "x", Path("/proc/nowhere/x")):
        with pytest.raises(StoreError, match="choose another --out"), new_file(out):
            pass


def test_nothing_is_written_into_the_data_folder_or_over_a_file(crawled: Crawled, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("mine")
    (tmp_path / "way-in").symlink_to(crawled.data)
    for out in (crawled.data / "x", crawled.data, tmp_path / "way-in" / "main" / "x", tmp_path / "there"):
        with pytest.raises(UsageError, match="choose another --out"):
            check_target(crawled.root, out)
    check_target(crawled.root, tmp_path / "new")


def export(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "teia", "export", *words], capture_output=True, check=False)


def test_command_writes_to_standard_output_or_to_a_path(crawled: Crawled, tmp_path: Path) -> None:
    data = ("--data", str(crawled.data))
    assert record_ids(export("warc", *data).stdout) == record_ids(whole(crawled.root))
    done = export("graph", *data, "--out", str(tmp_path / "graph"))
    assert (done.returncode, done.stdout) == (0, b"")
    assert (tmp_path / "graph").read_bytes() == b"".join(graph_lines(crawled.root, "main"))
    again = export("graph", *data, "--out", str(tmp_path / "graph"))
    assert again.returncode == 2
    assert again.stderr.count(b"\n") == 1
