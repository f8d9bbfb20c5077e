"""A WACZ file becomes part of a collection; a file that is none, or was changed, is named."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from teia.clock import WallClock
from teia.crawler.lookup import Lookup
from teia.errors import StoreError
from teia.store.root import Root, open_root
from teia.transfer.export_wacz import export_wacz
from teia.transfer.import_data import ImportResult, choose_collection, open_target
from teia.transfer.import_wacz import MAX_PACKAGE_BYTES, hosts_of_packages, import_wacz, unpacked
from teia.transfer.read_all import audit_archives, known_urls
from tests.crawler.offline import offline_crawl

SEED = "http://a.test/"
WEB = {SEED: '<title>Home</title><a href="/1">1</a>', f"{SEED}1": "<title>One</title><p>words"}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wacz")
    with offline_crawl(WEB, folder, SEED) as crawl:
        crawl.run()
    with (folder / "a.wacz").open("wb") as file:
        export_wacz(open_root(folder / "data"), "main", file, 1_700_001_000.0)
    return folder / "a.wacz"


def take(root: Root, *files: Path) -> ImportResult:
    done = ImportResult("main")
    with root.locked(), open_target(root, "main", WallClock()) as target:
        asyncio.run(import_wacz(target, files, done))
    return done


@pytest.mark.heavy
def test_pages_of_a_package_are_known_with_their_captures(package: Path, tmp_path: Path) -> None:
    root = open_root(tmp_path / "data", create=True)
    choose_collection(root, None, None, (), lambda: hosts_of_packages([package]))
    done = take(root, package)
    assert (done.pages, done.damaged, done.mismatched) == (2, 0, 0)
    assert {each["url"]: each["state"] for each in known_urls(root, "main")} == dict.fromkeys(WEB, "done")
    with Lookup(root, "main") as lookup:
        assert {url: lookup.capture(url).payload.decode() for url in WEB} == WEB
    assert audit_archives(root, "main").violations == 0
    assert take(root, package).pages == 0, "the second time, everything is there"


def test_a_changed_archive_is_reported(package: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed.wacz"
    with ZipFile(package) as source, ZipFile(changed, "w") as target:
        for info in source.infolist():
            data = source.read(info)
            target.writestr(info, data + (b"x" if info.filename.startswith("archive/") else b""))
    done = ImportResult("main")
    with unpacked([changed], done) as archives:
        assert len(archives) == done.mismatched == 2
        assert all(path.read_bytes().endswith(b"x") for path in archives)
    assert "the digest does not match" in done.details[0]
    assert not any(path.exists() for path in archives)


def test_names_inside_a_package_lead_nowhere_else(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "a.wacz", "w") as file:
        file.writestr("datapackage.json", json.dumps({"resources": []}))
        file.writestr("archive/../../../out.warc", b"x")
        file.writestr("archive/out.warc", b"y")
        file.writestr("archive/" + "\u6587" * 100 + ".warc", b"z")
    with unpacked([tmp_path / "a.wacz"], ImportResult("main")) as archives:
        assert [path.read_bytes() for path in archives] == [b"x", b"y", b"z"]
        assert len({path.parent for path in archives}) == 1


def test_a_list_of_files_that_fills_the_memory_is_refused(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "a.wacz", "w", ZIP_DEFLATED) as file, file.open("datapackage.json", "w") as entry:
        for _ in range(MAX_PACKAGE_BYTES // (8 << 20) + 1):
            entry.write(b" " * (8 << 20))
    with pytest.raises(StoreError, match=r"datapackage\.json has more than"):
        hosts_of_packages([tmp_path / "a.wacz"])


@pytest.mark.parametrize(("at", "bits"), [(6, 1), (8, 99)])
def test_an_encrypted_or_oddly_compressed_file_is_refused_in_words(
    package: Path, tmp_path: Path, at: int, bits: int
) -> None:
    octets = bytearray(package.read_bytes())
    for mark, more in ((b"PK\x03\x04", 0), (b"PK\x01\x02", 2)):
        begin = octets.find(mark)
        while begin >= 0:
            octets[begin + at + more] |= bits
            begin = octets.find(mark, begin + 4)
    (tmp_path / "a.wacz").write_bytes(octets)
    with pytest.raises(StoreError, match="cannot be read as a WACZ file"):
        hosts_of_packages([tmp_path / "a.wacz"])


@pytest.mark.parametrize("name", ["no zip", "no list", "no JSON"])
def test_other_files_are_refused_in_words(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.wacz"
    if name == "no zip":
        path.write_bytes(b"WARC/1.1\r\n")
    else:
        with ZipFile(path, "w") as file:
            file.writestr("other" if name == "no list" else "datapackage.json", "x")
    with pytest.raises(StoreError, match="WACZ"):
        hosts_of_packages([path])
