"""Other people's WARC files through our reader and our audit; what is expected of each is in conformance/README.md.

ARC files are not read (fastwarc does not read them, and nothing of ours writes them): they are refused in words.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from teia.errors import CorruptFile
from teia.store.audit import Audit, audit_archive
from teia.store.cdxj import index_lines
from teia.store.reader import ArchiveRecord, Damage, answer_of, file_records


def read(path: Path) -> tuple[list[ArchiveRecord], list[Damage]]:
    damages: list[Damage] = []
    return list(file_records(path, damages.append)), damages


def audited(path: Path, folder: Path) -> Audit:
    shutil.copy(path, folder / path.name)
    return audit_archive(folder)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("warcio/example.warc", "warcinfo warcinfo response request revisit request"),
        ("warcio/example.warc.gz", "warcinfo warcinfo response request revisit request"),
        ("warcio/example-iana.org-chunked.warc", "warcinfo response request"),
        ("warcio/example-resource.warc.gz", "warcinfo warcinfo resource"),
        ("warcio/post-test.warc.gz", "response request response request response request"),
        ("warcio/example-wget-bad-target-uri.warc.gz", "warcinfo request response metadata resource resource"),
        ("warcio/example-space-in-target-uri.warc.gz", "warcinfo resource"),
        ("jwarc/cc.warc.gz", "response"),
        ("jwarc/gzip_extra_sl.warc.gz", "warcinfo"),
        ("iipc-primer/hello-world.warc", "warcinfo request response metadata resource resource"),
        ("iipc-primer/hello-world.warc.gz", "warcinfo request response metadata resource resource"),
    ],
)
def test_good_files_read_whole_and_audit_clean(conformance: Path, tmp_path: Path, name: str, kinds: str) -> None:
    path = conformance / "warc" / name
    records, damages = read(path)
    assert (" ".join(record.kind for record in records), damages) == (kinds, [])
    assert audited(path, tmp_path) == Audit(len(records), 0, ())


def test_the_one_wrong_payload_digest_is_found(conformance: Path, tmp_path: Path) -> None:
    audit = audited(conformance / "warc" / "warcio" / "example-digest.warc", tmp_path)
    assert audit.checked == 4
    assert audit.details == ("example-digest.warc offset 0: the payload digest does not match",)


def test_one_gzip_member_for_the_whole_file_is_refused(conformance: Path, tmp_path: Path) -> None:
    path = conformance / "warc" / "warcio" / "example-bad-non-chunked.warc.gz"
    with pytest.raises(CorruptFile, match="more than one record in a gzip member"):
        list(file_records(path))
    assert audited(path, tmp_path).violations > 0


def test_angle_brackets_around_a_uri_are_removed(conformance: Path) -> None:
    records, _ = read(conformance / "warc" / "warcio" / "example-wget-bad-target-uri.warc.gz")
    assert [record.url for record in records if record.kind == "response"] == ["http://example.com/"]


def test_blanks_in_a_uri_are_escaped(conformance: Path) -> None:
    records, _ = read(conformance / "warc" / "warcio" / "example-space-in-target-uri.warc.gz")
    assert records[1].url == "file:///example%20with%20spaces.png"


@pytest.mark.parametrize(
    ("name", "url", "size"),
    [
        ("warcio/example.warc.gz", "http://example.com/", 1_270),
        ("warcio/example-iana.org-chunked.warc", "http://www.iana.org/", None),
        ("jwarc/cc.warc.gz", "http://commoncrawl.org/", None),
        ("iipc-primer/hello-world.warc.gz", None, 13),
    ],
)
def test_payloads_come_out_decoded(conformance: Path, name: str, url: str | None, size: int | None) -> None:
    records, _ = read(conformance / "warc" / name)
    answer = answer_of(next(record for record in records if record.kind == "response"))
    assert answer.status == 200
    assert url in {None, answer.url}
    assert answer.is_decoded
    assert size in {None, len(answer.payload)}
    assert size == 13 or b"</html>" in answer.payload.lower()


def test_index_agrees_with_the_one_that_came_with_the_file(conformance: Path) -> None:
    folder = conformance / "warc" / "iipc-primer"
    (line,) = [line for line in index_lines(folder / "hello-world.warc.gz") if b"hello-world.txt" in line]
    offsets = [
        row.split()[-2]
        for row in (folder / "hello-world.warc.cdx").read_text().splitlines()
        if "hello-world.txt" in row
    ]
    (plain,) = [line for line in index_lines(folder / "hello-world.warc") if b"hello-world.txt" in line]
    assert line.startswith(b"io,github,iipc)/warc-specifications/primers/web-archive-formats/hello-world.txt ")
    assert offsets
    assert any(f'"offset": "{offset}"'.encode() in plain for offset in offsets)


@pytest.mark.parametrize("name", ["example-trunc.warc", "example-wrong-chunks.warc.gz", "example-bad.warc.gz.bad"])
def test_damaged_files_neither_crash_nor_loop(conformance: Path, tmp_path: Path, name: str) -> None:
    path = conformance / "warc" / "warcio" / name
    records, damages = read(path)
    for record in records:
        if record.kind in {"response", "revisit"}:
            answer_of(record)
    assert damages or name == "example-wrong-chunks.warc.gz"
    shutil.copy(path, tmp_path / path.name.removesuffix(".bad"))
    assert audit_archive(tmp_path).violations > 0


@pytest.mark.parametrize("name", ["example.arc", "example.arc.gz", "bad.arc", "example-space-in-url.arc"])
def test_arc_files_are_refused_in_words(conformance: Path, name: str) -> None:
    records, damages = read(conformance / "warc" / "warcio" / name)
    assert records == []
    assert damages
    assert all(damage.why for damage in damages)
