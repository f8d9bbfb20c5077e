"""What comes from elsewhere becomes part of a collection, once, whatever happens on the way."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from teia.clock import WallClock
from teia.config.load import to_toml
from teia.config.sections import Config
from teia.crawler.fetch_rows import fetch_log
from teia.crawler.lookup import Lookup
from teia.errors import CorruptFile, StoreError, UsageError
from teia.records import Fetched
from teia.store.fetchlog import FetchRow
from teia.store.parquet import VERSION, table_of
from teia.store.reader import ArchiveReader
from teia.store.root import Root, open_root
from teia.store.warc import page_members
from teia.transfer.export import export_log, export_warc, export_warc_folder, graph_lines, new_file
from teia.transfer.import_data import ImportResult, choose_collection, open_target
from teia.transfer.import_lists import hosts_of_logs, import_log, import_urls
from teia.transfer.import_warc import hosts_of_archives, import_warc
from teia.transfer.read_all import audit_archives, audit_fetch_log, known_urls
from teia.views.reports.freshness import read_pace
from teia.views.reports.outcomes import code_of, outcomes
from teia.views.reports.source import open_source
from tests.crawler.crawled import Crawled
from tests.system.labs import IMPATIENT, crawl

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"


def new_root(folder: Path, *scope: str) -> Root:
    root = open_root(folder, create=True)
    choose_collection(root, None, None, scope or ("suffix:.test",), set)
    return root


def take_archives(root: Root, *files: Path) -> ImportResult:
    done = ImportResult("main")
    with root.locked(), open_target(root, "main", WallClock()) as target:
        asyncio.run(import_warc(target, files, done))
    return done


def take_lists(root: Root, *files: Path) -> ImportResult:
    done = ImportResult("main")
    with root.locked(), open_target(root, "main", WallClock()) as target:
        import_urls(target, files, done)
    return done


def urls_of(root: Root) -> dict[str, dict[str, Any]]:
    return {each["url"]: each for each in known_urls(root, "main")}


def as_imported(urls: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Every URL as an import leaves it: PageRank is computed from the links, by the next crawl's indexer."""
    return {url: {**each, "pagerank": None} for url, each in urls.items()}


@pytest.fixture(scope="session")
def exported(crawled: Crawled, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything of a crawl as `teia export` writes it."""
    folder = tmp_path_factory.mktemp("exported")
    export_warc_folder(crawled.root, "main", folder / "warc")
    with new_file(folder / "urls.jsonl") as file:
        file.writelines(json.dumps(each).encode() + b"\n" for each in crawled.urls.values())
    with new_file(folder / "log.parquet") as file:
        export_log(crawled.root, "main", file)
    return folder


@pytest.fixture
def archive_files(exported: Path) -> list[Path]:
    return sorted((exported / "warc").iterdir())


# ---- there and back -------------------------------------------------------------------------------------------------


def test_round_trip_keeps_every_url_and_a_crawl_fetches_nothing_twice(
    crawled: Crawled, exported: Path, archive_files: list[Path], tmp_path: Path
) -> None:
    root = new_root(tmp_path / "data")
    done = take_archives(root, *archive_files)
    take_lists(root, exported / "urls.jsonl")
    assert (done.damaged, done.skipped, done.mismatched) == (0, 0, 0)
    assert urls_of(root) == as_imported(crawled.urls)
    assert list(graph_lines(root, "main")) == list(graph_lines(crawled.root, "main"))
    assert audit_archives(root, "main").violations == 0
    again = crawl(crawled.lab, tmp_path / "data", environ=IMPATIENT)
    assert again["requests"] == 0
    assert as_imported(urls_of(root)) == as_imported(crawled.urls)


def test_copies_are_the_same_bytes(crawled: Crawled, archive_files: list[Path], tmp_path: Path) -> None:
    root = new_root(tmp_path / "data")
    take_archives(root, *archive_files)
    with Lookup(crawled.root, "main") as before, Lookup(root, "main") as after:
        for url, _, page in before.pages():
            assert after.capture(url) == before.capture(url)
            entry = after.find(url)
            assert entry is not None
            assert entry.page is not None
            assert (entry.page.digest, entry.page.title) == (page.digest, page.title)


def test_the_order_of_lists_and_archives_does_not_matter(
    crawled: Crawled, exported: Path, archive_files: list[Path], tmp_path: Path
) -> None:
    root = new_root(tmp_path / "data")
    take_lists(root, exported / "urls.jsonl")
    take_archives(root, *reversed(archive_files))
    assert urls_of(root) == as_imported(crawled.urls)


def test_the_same_pages_in_another_file_are_not_taken_twice(
    crawled: Crawled, archive_files: list[Path], tmp_path: Path
) -> None:
    root = new_root(tmp_path / "data")
    first = take_archives(root, *archive_files)
    assert take_archives(root, *archive_files).records == 0
    with new_file(tmp_path / "all.warc.gz") as file:
        export_warc(crawled.root, "main", file)
    again = take_archives(root, tmp_path / "all.warc.gz")
    assert (again.pages, again.urls_new) == (0, 0)
    assert again.skipped == first.pages
    assert {each["visits"] for each in urls_of(root).values()} <= {0, 1, 2, 3}


def test_imported_log_can_be_queried_and_does_not_count_against_us(
    crawled: Crawled, exported: Path, tmp_path: Path
) -> None:
    root = new_root(tmp_path / "data")
    for _ in range(2):
        done = ImportResult("main")
        with root.locked(), open_target(root, "main", WallClock()) as target:
            import_log(target, [exported / "log.parquet"], done)
    assert (done.rows, done.skipped > 0) == (0, True)
    columns = "url, started, outcome, digest"
    with fetch_log(root, "main") as log, fetch_log(crawled.root, "main") as before:
        rows = [each.query(f"SELECT {columns} FROM fetches ORDER BY ALL").rows for each in (log, before)]
    assert rows[0] == rows[1]
    assert audit_fetch_log(root, "main", Config().courtesy).checked == 0
    asked = []
    for each in (root, crawled.root):
        with open_source(each, "main") as source:
            last_s = source.log.query("SELECT max(epoch(started)) FROM fetches").rows[0][0]
            asked.append(sum(pace.last_day for pace in read_pace(source, last_s).values()))
    assert asked[0] == 0 < asked[1], "they are no requests of this day either"


def test_what_is_no_log_is_refused(archive_files: list[Path], tmp_path: Path) -> None:
    root = new_root(tmp_path / "data")
    with pytest.raises(CorruptFile, match="not a fetch log"), open_target(root, "main", WallClock()) as target:
        import_log(target, archive_files[:1], ImportResult("main"))


LOG_ROW = FetchRow(1.7e9, 1.7e9 + 1, "http://a.test/", "a.test", "a.test", "200", status=200)


def write_foreign_log(path: Path, change: Callable[[Any], Any]) -> Path:
    """Write a log of two rows that somebody has changed."""
    table = change(table_of([LOG_ROW, LOG_ROW._replace(url="http://a.test/2")]))
    pq.write_table(table.replace_schema_metadata({b"teia.fetchlog": VERSION}), path)
    return path


def with_column(table: Any, name: str, values: Any) -> Any:
    return table.set_column(table.schema.get_field_index(name), name, values)


def take_log(root: Root, path: Path) -> ImportResult:
    done = ImportResult("main")
    with root.locked(), open_target(root, "main", WallClock()) as target:
        import_log(target, [path], done)
    return done


@pytest.mark.parametrize("name", ["started", "ended", "url", "host", "site", "outcome"])
def test_rows_of_a_log_without_a_value_that_each_has_are_refused_and_the_log_stays_readable(
    tmp_path: Path, name: str
) -> None:
    """They were stored, and no query, no report and no crawl could read the log of that cell any more."""

    def change(table: Any) -> Any:
        values = table.column(name).to_pylist()
        return with_column(table, name, pa.array([None, values[1]], table.schema.field(name).type))

    root = new_root(tmp_path / "data")
    done = take_log(root, write_foreign_log(tmp_path / "log.parquet", change))
    assert (done.rows, done.refused) == (1, 1)
    assert done.details[0].endswith(f"row 0: no value of {name}")
    with fetch_log(root, "main") as log:
        assert log.query("SELECT url FROM fetches").rows == [("http://a.test/2",)]


def test_columns_that_an_older_log_lacks_get_their_usual_values(tmp_path: Path) -> None:
    root = new_root(tmp_path / "data")
    lacking = ["kind", "bytes", "visit", "attempt", "cell", "images"]
    older = write_foreign_log(tmp_path / "log.parquet", lambda table: table.drop_columns(lacking))
    assert take_log(root, older).rows == 2
    with fetch_log(root, "main") as log:
        rows = log.query("SELECT DISTINCT kind, bytes, images FROM fetches").rows
    assert rows == [(LOG_ROW.kind, LOG_ROW.bytes, LOG_ROW.images)]


def test_rows_of_a_log_with_a_time_that_is_no_date_or_an_endless_url_are_refused(tmp_path: Path) -> None:
    root = new_root(tmp_path / "data")
    micro_s = pa.array([2**62, -(2**62)], pa.int64()).cast(pa.timestamp("us", "UTC"))
    far = write_foreign_log(tmp_path / "far.parquet", lambda table: with_column(table, "ended", micro_s))
    assert take_log(root, far).refused == 2
    urls = pa.array(["http://a.test/" + "x" * 1_000_000, "http://a.test/2"])
    long = write_foreign_log(tmp_path / "long.parquet", lambda table: with_column(table, "url", urls))
    assert (done := take_log(root, long)).refused == 1
    assert len(done.details[0]) < 300


def test_all_logs_are_checked_before_the_first_one_is_imported(tmp_path: Path) -> None:
    root, good = new_root(tmp_path / "data"), write_foreign_log(tmp_path / "good.parquet", lambda table: table)
    (tmp_path / "bad.parquet").write_bytes(good.read_bytes()[:-9])
    done = ImportResult("main")
    with pytest.raises(CorruptFile, match="not a fetch log"), open_target(root, "main", WallClock()) as target:
        import_log(target, [good, tmp_path / "bad.parquet"], done)
    assert (done.files, done.rows) == (0, 0)


def test_odd_texts_of_a_log_break_no_report_and_no_other_row(tmp_path: Path) -> None:
    root = new_root(tmp_path / "data")
    odd = {"outcome": "\u00b2", "detail": "x" * 1_000_000, "host": "a\n\x1b]0;b"}
    for name, text in odd.items():
        values = pa.array([text, getattr(LOG_ROW, name)], pa.string())
        path = write_foreign_log(tmp_path / f"{name}.parquet", lambda table: with_column(table, name, values))  # noqa: B023
        assert take_log(root, path).refused == (name != "outcome")
    with open_source(root, "main") as source:
        assert {row.outcome: row.requests for row in outcomes(source).rows} == {"200": 3, "\u00b2": 1}
        assert code_of("\u00b2") is None


@pytest.mark.parametrize(
    "change",
    [
        lambda table: with_column(table, "host", pa.array([["a.test"], ["b.test"]])),
        lambda table: with_column(table, "url", pa.array([b"\xff\xfe", b"b"])),
        lambda table: pa.table([*table.columns, table.column("host")], names=[*table.schema.names, "host"]),
        lambda table: with_column(table, "links", pa.array([2**40, 1])),
    ],
    ids=["lists", "no UTF-8", "two columns of one name", "too large"],
)
def test_a_log_with_other_columns_is_refused_in_one_line(tmp_path: Path, change: Callable[[Any], Any]) -> None:
    """They ended the command with "this is a bug in teia"."""
    root, path = new_root(tmp_path / "data"), write_foreign_log(tmp_path / "log.parquet", change)
    with pytest.raises(CorruptFile, match="cannot be read as a fetch log") as caught:
        take_log(root, path)
    assert "\n" not in str(caught.value)
    with pytest.raises(CorruptFile, match="cannot be read as a fetch log"):
        hosts_of_logs([path])


# ---- kill -9 --------------------------------------------------------------------------------------------------------


def import_process(data: Path, files: list[Path]) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "teia", "import", "warc", *map(str, files), "--data", str(data)]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


@pytest.mark.slow
def test_a_killed_import_goes_on_and_takes_nothing_twice(
    crawled: Crawled, archive_files: list[Path], tmp_path: Path
) -> None:
    chance = random.Random(7)
    root = new_root(tmp_path / "data")
    calm = new_root(tmp_path / "calm")
    take_archives(calm, *archive_files)
    take_lists(root)  # nothing, but it makes the cells' files
    for _ in range(12):
        process = import_process(tmp_path / "data", archive_files)
        time.sleep(chance.uniform(0.6, 1.8))  # it dies at any moment of its work
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
        assert audit_archives(root, "main").violations == 0
    take_archives(root, *archive_files)
    assert urls_of(root) == urls_of(calm)
    stored = [sorted(_record_ids(each)) for each in (root, calm)]
    assert stored[0] == stored[1]


def _record_ids(root: Root) -> Iterator[str]:
    for folder in root.collection("main").cells():
        for record in ArchiveReader(folder.archive).records():
            if record.kind != "warcinfo":
                yield record.headers["warc-record-id"]


def test_a_folder_in_use_is_left_alone(archive_files: list[Path], tmp_path: Path) -> None:
    root = new_root(tmp_path / "data")
    with root.locked():
        process = import_process(tmp_path / "data", archive_files)
        assert process.wait(60) == 1
    assert not (tmp_path / "data/main/cells/00/frontier.sqlite").exists()


# ---- other people's archives ----------------------------------------------------------------------------------------


def test_archives_of_other_crawlers_are_read(conformance: Path, tmp_path: Path) -> None:
    folder = conformance / "warc"
    files = [
        folder / "warcio" / "example.warc.gz",
        folder / "warcio" / "example-iana.org-chunked.warc",
        folder / "warcio" / "post-test.warc.gz",
        folder / "warcio" / "example-resource.warc.gz",
        folder / "iipc-primer" / "hello-world.warc",
    ]
    root = open_root(tmp_path / "data", create=True)
    choose_collection(root, None, None, (), lambda: hosts_of_archives(files))
    done = take_archives(root, *files)
    assert done.damaged == 0
    assert audit_archives(root, "main").violations == 0
    known = urls_of(root)
    assert {url for url, each in known.items() if each["outcome"] == "200"} == {
        "http://example.com/",
        "http://www.iana.org/",
        "http://iipc.github.io/warc-specifications/primers/web-archive-formats/hello-world.txt",
    }
    assert known["http://example.com/"]["visits"] == 2  # a response and a revisit
    assert "http://httpbin.org/post" not in known  # the answer to a POST is no page
    assert known["http://www.iana.org/domains"]["state"] == "queued"
    assert not any("icann.org" in url for url in known)  # out of scope: no page of it is in the files


def test_links_of_other_crawlers_pages_come_from_the_pages(conformance: Path, tmp_path: Path) -> None:
    root = new_root(tmp_path / "data", "host:www.iana.org")
    take_archives(root, conformance / "warc" / "warcio" / "example-iana.org-chunked.warc")
    with Lookup(root, "main") as lookup:
        entry = lookup.find("http://www.iana.org/")
        assert entry is not None
        assert entry.page is not None
        assert "http://www.iana.org/domains" in {link.url for link in lookup.links(entry.cell, entry.page)}
        assert b"Internet Assigned Numbers Authority" in lookup.capture("http://www.iana.org/").payload


def test_damage_is_counted_and_the_rest_is_taken(archive_files: list[Path], tmp_path: Path) -> None:
    largest = max(archive_files, key=lambda path: path.stat().st_size)
    broken = tmp_path / "broken.warc.gz"
    shutil.copy(largest, broken)
    size = broken.stat().st_size
    with broken.open("r+b") as file:
        file.seek(size // 2)
        file.write(b"\xff" * 16)
    root = new_root(tmp_path / "data")
    done = take_archives(root, broken)
    assert done.damaged == 1
    assert done.pages > 5
    assert audit_archives(root, "main").violations == 0


def test_a_capture_of_the_year_9999_is_stored_and_not_believed(tmp_path: Path) -> None:
    """Its page was never due again, and every later visit was older than it."""
    fetched = Fetched("http://a.test/", "200", 200, 253_370_764_800.0, 253_370_764_801.0, head=HEAD, body=b"<p>later")
    root, file = new_root(tmp_path / "data"), tmp_path / "later.warc.gz"
    file.write_bytes(page_members(fetched, fetched.body, {}).data)
    done = take_archives(root, file)
    assert (done.pages, done.damaged) == (0, 0)
    assert done.records >= 1
    assert "dated in the future" in done.details[0]
    assert urls_of(root) == {}


def test_what_is_no_archive_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "x.warc").write_bytes(b"\x1f\x8b\x08 compressed")
    with pytest.raises(StoreError, match="compressed"):
        take_archives(new_root(tmp_path / "data"), tmp_path / "x.warc")


# ---- lists ----------------------------------------------------------------------------------------------------------


def test_lists_are_text_or_json_lines_and_bad_lines_are_counted(tmp_path: Path) -> None:
    lines = [
        "# a comment",
        "",
        "a.test/page",
        "http://A.test/other#part",
        "mailto:someone@a.test",
        '{"url": "http://b.test/", "depth": 3}',
        '{"url": "http://b.test/gone", "state": "excluded", "outcome": "robots", "depth": 2}',
        '{"url": "http://b.test/odd", "state": "excluded", "outcome": "<script>", "depth": 2}',
        '{"url": "http://b.test/deep", "depth": -1}',
        '{"url": 7}',
        "[" * 100_000,
        '{"url": "http://b.test/cut',
    ]
    (tmp_path / "list").write_text("\n".join(lines))
    root = new_root(tmp_path / "data")
    done = take_lists(root, tmp_path / "list")
    known = {url: (each["state"], each["outcome"], each["depth"]) for url, each in urls_of(root).items()}
    assert known == {
        "http://a.test/page": ("queued", None, 0),
        "http://a.test/other": ("queued", None, 0),
        "http://b.test/": ("queued", None, 3),
        "http://b.test/gone": ("excluded", "robots", 2),
        "http://b.test/odd": ("queued", None, 2),
    }
    assert (done.refused, done.urls_new) == (5, 5)
    assert take_lists(root, tmp_path / "list").urls_new == 0


# ---- collections made by an import ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../outside", "/absolute", "a\0b", "a" * 300, "lock", "ﬁle", "..", ""])
def test_a_name_that_leads_elsewhere_makes_nothing(tmp_path: Path, name: str) -> None:
    root = open_root(tmp_path / "data", create=True)
    with pytest.raises(Exception, match=r"name|NAME|must"):
        choose_collection(root, name or "-", None, ("suffix:.test",), set)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["format"]


def test_a_new_collection_may_crawl_the_hosts_of_its_files(tmp_path: Path) -> None:
    root = open_root(tmp_path / "data", create=True)
    choose_collection(root, "one", None, (), lambda: {"b.test", "a.test"})
    assert '["host:a.test", "host:b.test"]' in root.collection("one").config.read_text()
    with pytest.raises(UsageError, match="--scope"):
        choose_collection(root, "two", None, (), lambda: {f"{n}.test" for n in range(1000)})
    with pytest.raises(UsageError, match="already exists with its own settings"):
        choose_collection(root, "one", None, ("suffix:.br",), set)


def test_settings_of_another_collection_can_be_taken_over(tmp_path: Path) -> None:
    file = tmp_path / "teia.toml"
    file.write_text(to_toml(Config()) + '[collection]\nname = "moved"\nseeds = ["http://a.test/"]\n')
    root = open_root(tmp_path / "data", create=True)
    assert choose_collection(root, None, file, (), set) == "moved"
