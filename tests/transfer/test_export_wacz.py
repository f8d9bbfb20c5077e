"""A WACZ file holds every record, finds each answer by its index, and states the digest of all of it."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import pytest
from warcio.archiveiterator import ArchiveIterator

from teia.store.reader import ArchiveReader
from teia.store.root import Root, open_root
from teia.transfer import export_wacz as module
from teia.transfer.export import archive_files, export_warc
from teia.transfer.export_wacz import export_wacz
from tests.conftest import ROOT, missing
from tests.crawler.offline import offline_crawl

SEED = "http://a.test/"
WEB = {
    SEED: "<title>Home</title>" + "".join(f'<a href="/{number}">{number}</a>' for number in range(8)),
    **{f"{SEED}{number}": f"<title>Page {number}</title><p>words, {number * 7}" for number in range(7)},
}
NOW_S = 1_700_001_000.0
WACZ = "wacz==0.6.0"


@pytest.fixture
def root(tmp_path: Path) -> Root:
    with offline_crawl(WEB, tmp_path, SEED) as crawl:
        crawl.run()
        crawl.revisit_only(f"{SEED}1")  # unchanged: a revisit record
    return open_root(tmp_path / "data")


def exported(root: Root) -> ZipFile:
    file = io.BytesIO()
    done = export_wacz(root, "main", file, NOW_S)
    assert done.damaged == 0
    return ZipFile(file)


def index_of(package: ZipFile) -> list[dict[str, Any]]:
    """The lines of the index, read block by block as a replay tool does."""
    header, *blocks = package.read("indexes/index.idx").decode().splitlines()
    assert header == '!meta 0 {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}'
    whole, lines = package.read("indexes/index.cdx.gz"), []
    for block in blocks:
        key, stamp, place = block.split(" ", 2)
        at = json.loads(place)
        data = whole[at["offset"] : at["offset"] + at["length"]]
        assert at["digest"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
        found = gzip.decompress(data).decode().splitlines()
        assert found[0].startswith(f"{key} {stamp} ")
        lines += found
    assert lines == sorted(lines)
    return [{**json.loads(line.split(" ", 2)[2]), "timestamp": line.split(" ", 2)[1]} for line in lines]


def test_the_index_finds_every_answer_in_the_package(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_LINES", 3)
    package = exported(root)
    lines = index_of(package)
    for line in lines:
        data = package.read(f"archive/{line['filename']}")[int(line["offset"]) :][: int(line["length"])]
        record = next(iter(ArchiveIterator(io.BytesIO(data))))
        assert record.rec_headers.get_header("WARC-Target-URI") == line["url"]
    assert {line["url"] for line in lines} == {*WEB, f"{SEED}7"}
    assert len(lines) == len(WEB) + 2  # the page that is missing, and the second visit of one
    assert sum(name.startswith("archive/") for name in package.namelist()) == 2


def test_it_holds_the_same_records_as_the_export_of_warc_files(root: Root) -> None:
    package, whole = exported(root), io.BytesIO()
    export_warc(root, "main", whole)
    names = [name for name in package.namelist() if name.startswith("archive/")]
    assert b"".join(map(package.read, names)) == whole.getvalue()


def test_every_file_is_listed_with_its_digest_and_archives_are_not_compressed_again(root: Root) -> None:
    package = exported(root)
    manifest = json.loads(package.read("datapackage.json"))
    assert manifest["wacz_version"] == "1.1.1"
    assert manifest["created"] == "2023-11-14T22:30:00Z"
    listed = {each["path"]: each for each in manifest["resources"]}
    assert set(listed) == set(package.namelist()) - {"datapackage.json", "datapackage-digest.json"}
    for path, each in listed.items():
        data = package.read(path)
        assert (each["hash"], each["bytes"]) == (f"sha256:{hashlib.sha256(data).hexdigest()}", len(data))
        if path.endswith(".gz"):
            assert package.getinfo(path).compress_type == ZIP_STORED
    digest = json.loads(package.read("datapackage-digest.json"))
    assert digest["hash"] == f"sha256:{hashlib.sha256(package.read('datapackage.json')).hexdigest()}"


def test_small_files_have_no_header_fields_of_64_bits(root: Root) -> None:
    """ReplayWeb.page takes the length of these fields from the directory, where they would be missing."""
    data = _bytes_of(root)
    for info in ZipFile(io.BytesIO(data)).infolist():
        name_bytes, extra_bytes = struct.unpack_from("<HH", data, info.header_offset + 26)
        assert (name_bytes, extra_bytes) == (len(info.filename), len(info.extra) or 0)


def test_the_list_of_pages_leads_to_captures(root: Root) -> None:
    package = exported(root)
    header, *lines = map(json.loads, package.read("pages/pages.jsonl").splitlines())
    assert header["format"] == "json-pages-1.0"
    assert {line["url"]: line["title"] for line in lines} == {
        SEED: "Home",
        **{f"{SEED}{number}": f"Page {number}" for number in range(7)},
    }
    assert len({line["id"] for line in lines}) == len(lines)
    captured = {(line["url"], line["timestamp"]) for line in index_of(package)}
    for line in lines:
        assert (line["url"], line["ts"][:19].translate(str.maketrans("", "", "-:T"))) in captured


def test_a_damaged_record_is_left_out_and_the_others_are_found(root: Root) -> None:
    path = max((path for path, _ in archive_files(root, "main")), key=lambda path: path.stat().st_size)
    damaged, after = [record for record in ArchiveReader(path.parent).records() if record.kind == "response"][:2]
    with (path.parent / damaged.file).open("r+b") as file:
        file.seek(damaged.offset + damaged.length // 2)
        file.write(b"\xff" * 8)
    target = io.BytesIO()
    assert export_wacz(root, "main", target, NOW_S).damaged == 1
    package = ZipFile(target)
    lines = {line["url"]: line for line in index_of(package)}
    line = lines[after.url]
    data = package.read(f"archive/{line['filename']}")[int(line["offset"]) :][: int(line["length"])]
    record = next(iter(ArchiveIterator(io.BytesIO(data))))
    assert record.rec_headers.get_header("WARC-Record-ID") == after.headers["warc-record-id"]


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_validator_of_the_wacz_package_accepts_it(root: Root, tmp_path: Path) -> None:
    environment = ROOT / ".cache" / "wacz"
    program = environment / "bin" / "wacz"
    if not program.exists():
        shutil.rmtree(environment, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True, timeout=120)
        # setuptools: the package still imports pkg_resources, which newer environments do not have.
        words = [str(environment / "bin" / "pip"), "install", "--quiet", WACZ, "setuptools<81"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            shutil.rmtree(environment, ignore_errors=True)
            missing(f"{WACZ} cannot be installed: {(done.stderr.strip().splitlines() or ['pip failed'])[-1]}")
    (tmp_path / "x.wacz").write_bytes(_bytes_of(root))
    words = [str(program), "validate", "-f", str(tmp_path / "x.wacz")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Invalid" not in done.stdout, done.stdout


def _bytes_of(root: Root) -> bytes:
    file = io.BytesIO()
    export_wacz(root, "main", file, NOW_S)
    return file.getvalue()
