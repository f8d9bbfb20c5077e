"""Lines that the pages of a host repeat: counted while pages are indexed, read while they are searched."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from teia.index import repeated
from teia.index.repeated import (
    FIRST_PAGES,
    HALVED_AT,
    LATER_PAGES,
    Lines,
    RepeatedLinesReader,
    RepeatedLinesWriter,
    number_of_line,
    number_of_title,
    pack_lines,
    unpack_lines,
)
from tests.index.pages import page

MENU = "Home\nProducts\nContact"


def counted(path: Path, *texts: str, title: str = "Shop") -> Lines:
    writer = RepeatedLinesWriter(path)
    for number, text in enumerate(texts):
        writer.add(page(f"http://a.test/{number}", text, title))
    writer.flush()
    writer.close()
    reader = RepeatedLinesReader(path)
    found = reader.of("a.test")
    reader.close()
    return found


def test_lines_of_several_pages_are_repeated_and_those_of_one_are_not(tmp_path: Path) -> None:
    found = counted(tmp_path / "lines", *(f"{MENU}\nPage number {number} says this." for number in range(5)))
    assert found == {*map(number_of_line, MENU.split("\n")), number_of_title("Shop")}


@pytest.mark.parametrize(("pages", "having", "is_repeated"), [(1, 1, False), (2, 2, True), (4, 2, False), (9, 3, True)])
def test_one_page_says_nothing_of_a_host_and_two_of_many_too_little(
    tmp_path: Path, pages: int, having: int, is_repeated: bool
) -> None:
    texts = [f"text {at}\n{'Accept cookies' if at < having else f'other {at}'}" for at in range(pages)]
    assert (number_of_line("Accept cookies") in counted(tmp_path / "lines", *texts)) == is_repeated


def test_a_page_that_changes_is_not_counted_as_another(tmp_path: Path) -> None:
    writer = RepeatedLinesWriter(tmp_path / "lines")
    for version in range(9):
        writer.add(page("http://a.test/", f"The only page says this.\nVersion {version}", "Alone"))
        writer.flush()
    writer.close()
    assert RepeatedLinesReader(tmp_path / "lines").of("a.test") == frozenset()


def test_counting_continues_after_a_restart(tmp_path: Path) -> None:
    for number in range(4):
        writer = RepeatedLinesWriter(tmp_path / "lines")
        writer.add(page(f"http://a.test/{number}", f"Menu\nPage {number}"))
        writer.flush()
        writer.close()
    assert number_of_line("Menu") in RepeatedLinesReader(tmp_path / "lines").of("a.test")


def test_a_new_layout_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    writer = RepeatedLinesWriter(tmp_path / "lines")
    reader = RepeatedLinesReader(tmp_path / "lines")
    pages = [page(f"http://a.test/{number}", f"Old menu\n{number}") for number in range(FIRST_PAGES)]
    # Pages of which one in 64 is counted are made to be of that kind, so that few are needed.
    later = (page(f"http://a.test/later/{number}", f"New menu\n{number}") for number in range(3 * HALVED_AT))
    sampled = [msgspec.structs.replace(each, key=each.key // LATER_PAGES * LATER_PAGES) for each in later]
    for each in pages:
        writer.add(each)
    writer.flush()
    assert number_of_line("Old menu") in reader.of("a.test")
    for each in sampled:
        writer.add(each)
    writer.flush()
    assert number_of_line("New menu") in reader.of("a.test")
    assert number_of_line("Old menu") not in reader.of("a.test")
    writer.close()
    reader.close()


def test_the_counts_of_many_hosts_do_not_stay_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen: 300 kB for each of a thousand hosts with twenty pages of their own lines."""
    monkeypatch.setattr(repeated, "MAX_COUNTED_LINES", 1_000)
    writer, most = RepeatedLinesWriter(tmp_path / "lines"), 0
    for number in range(20 * 5):
        own = "\n".join(f"Line {line} of page {number}" for line in range(50))
        writer.add(page(f"http://{number % 20}.test/{number}", f"Menu\n{own}"))
        most = max(most, sum(len(host.counts) for host in writer._hosts.values()))
    writer.flush()
    writer.close()
    assert most <= 1_000
    reader = RepeatedLinesReader(tmp_path / "lines")
    assert all(number_of_line("Menu") in reader.of(f"{host}.test") for host in range(20))
    reader.close()


def test_damaged_counts_of_a_host_are_counted_anew(tmp_path: Path) -> None:
    counted(tmp_path / "lines", "Old menu", "Old menu")
    with closing(sqlite3.connect(tmp_path / "lines")) as db, db:
        db.execute("UPDATE hosts SET counts = x'01', lines = x'0102'")
    assert counted(tmp_path / "lines", "Menu\n1", "Menu\n2") >= {number_of_line("Menu")}


def test_a_search_works_without_the_file_and_with_a_damaged_one(tmp_path: Path) -> None:
    assert RepeatedLinesReader(tmp_path / "none").of("a.test") == frozenset()
    (tmp_path / "damaged").write_bytes(b"no database" * 100)
    assert RepeatedLinesReader(tmp_path / "damaged").of("a.test") == frozenset()


def test_lines_are_sent_as_octets_and_a_cut_rest_is_left_out() -> None:
    lines = frozenset({1, 2, 4_000_000_000})
    assert unpack_lines(pack_lines(lines)) == lines
    assert unpack_lines(pack_lines([7]) + b"xy") == {7}
