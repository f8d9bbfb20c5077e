"""What a cell's queries cost, by their plans and by SQLite's own count of instructions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from teia.frontier.cell import cell as cell_module
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import PageRow, SettledVisit
from teia.frontier.cell.schema import DDL, LANE_NEW, SCHEMA, STATE_DONE, STATE_QUEUED
from teia.sqlite import log_bytes
from tests.frontier.cell.random_cells import change_at_random, dump
from tests.frontier.cells import HOST, NOW_S, add_links, assert_counters_are_true, found, items, page, settle


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[FrontierCell]:
    opened = FrontierCell(tmp_path / "frontier.sqlite")
    yield opened
    opened.close()


def plans(cell: FrontierCell, work: Callable[[], object]) -> list[str]:
    """The query plans of every statement that `work` runs."""
    statements: list[str] = []
    cell.db.set_trace_callback(statements.append)
    work()
    cell.db.set_trace_callback(None)
    plain = [sql for sql in statements if sql.lstrip().upper().startswith(("SELECT", "UPDATE", "DELETE", "INSERT"))]
    assert plain
    return [step[3] for sql in plain for step in cell.db.execute(f"EXPLAIN QUERY PLAN {sql}")]


def test_no_hot_query_scans_or_sorts(cell: FrontierCell) -> None:
    add_links(cell, *(found(page(number), 2) for number in range(20)))
    item = items(cell)[0]
    host_id = cell.host_id(HOST, NOW_S)
    learnt = PageRow(200, b"d", b"t")
    for work in (
        lambda: items(cell, 8, skip={1, 2}),
        lambda: cell.next_due_s(host_id, HOST),
        lambda: add_links(cell, found(page(1), 1), found(page("new")), found("http://new.test/")),
        lambda: settle(cell, item, STATE_QUEUED, again_s=NOW_S, learnt=learnt),
        lambda: settle(cell, item, STATE_DONE, time_s=NOW_S + 1, learnt=learnt),
        lambda: cell.robots_of(host_id, HOST),
    ):
        for step in plans(cell, work):
            assert not step.startswith("SCAN"), step
            assert "TEMP B-TREE" not in step


def statements(cell: FrontierCell, work: Callable[[], object]) -> list[str]:
    """The first words of every statement that `work` runs."""
    run: list[str] = []
    cell.db.set_trace_callback(run.append)
    work()
    cell.db.set_trace_callback(None)
    return [sql.split(maxsplit=1)[0] for sql in run]


def test_links_and_visits_are_looked_up_together_and_known_links_are_not_written(cell: FrontierCell) -> None:
    links = [*(found(page(number)) for number in range(200)), found("http://other.test/")]
    add_links(cell, *links)
    again = [replace(link, in_links=0) for link in links]
    run = statements(cell, lambda: add_links(cell, *again))
    assert (run.count("SELECT") <= 8, run.count("UPDATE")) == (True, 0), "201 links that change nothing"
    ends = [
        (SettledVisit(cell.host_id(HOST, NOW_S), item, "200", STATE_DONE, NOW_S, page=PageRow(200, b"d")), HOST)
        for item in items(cell, 100)
    ]
    with cell.transaction():
        run = statements(cell, lambda: cell.settle_all(ends))
    assert (run.count("SELECT"), run.count("DELETE")) == (1 + 4 + 4, 100)
    assert_counters_are_true(cell)


def steps(cell: FrontierCell, work: Callable[[], object]) -> int:
    """How many instructions of SQLite's machine `work` takes, in hundreds: a clock that does not depend on the load."""
    count = 0

    def tick() -> int:
        nonlocal count
        count += 1
        return 0

    cell.db.set_progress_handler(tick, 100)
    work()
    cell.db.set_progress_handler(None, 0)
    return count


def test_two_hundred_thousand_urls_of_one_host_cost_no_more_than_two_hundred(cell: FrontierCell) -> None:
    def cost() -> int:
        def work() -> None:
            waiting = items(cell, 64)
            for item in waiting[:10]:
                settle(cell, item, STATE_DONE, learnt=PageRow(200, b"d", b"t"))
            add_links(cell, found(page(f"moved/{cell.known - 1}"), 1))

        return steps(cell, work)

    add_links(cell, *(found(page(f"moved/{number}"), 3) for number in range(200)))
    small = cost()
    rows = [(number, number) for number in range(1_000, 201_000)]
    slot, host_id = cell.db.execute("SELECT slot, host_id FROM hosts").fetchone()
    with cell.transaction():
        cell.db.executemany(
            "INSERT INTO urls (slot, host_id, key, tail, depth, in_links, state, found_s, lane, rank)"
            f" VALUES ({slot}, {host_id}, ?, '/x', 3, 1, 0, 0, {LANE_NEW}, (4 << 40) | ?)",
            rows,
        )
        cell.db.executemany(f"INSERT INTO queue VALUES ({slot}, {host_id}, {LANE_NEW}, (4 << 40) | ?, ?)", rows)
        cell.known += len(rows)
        cell.queued += len(rows)
    assert cost() <= small * 1.5 + 5
    assert_counters_are_true(cell)


# ---- layout ---------------------------------------------------------------------------------------------------------


def cell_by_keys(path: Path, monkeypatch: pytest.MonkeyPatch) -> FrontierCell:
    """Return a cell as earlier versions created it: whole rows of `urls` by their keys."""
    start = DDL.index("CREATE TABLE urls")
    end = DDL.index(");", start)
    old = f"{DDL[:end]}) WITHOUT ROWID;{DDL[end + 2 :]}"
    with monkeypatch.context() as patch:
        patch.setattr(cell_module, "SCHEMA", replace(SCHEMA, ddl=old))
        return FrontierCell(path)


@pytest.mark.heavy
def test_new_links_of_large_hosts_write_fewer_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each changed a page of its own, for the whole row: at 10^8 URLs, 10.5 kB were written for a link, now 8.3."""
    written = []
    for cell in (cell_by_keys(tmp_path / "keys.sqlite", monkeypatch), FrontierCell(tmp_path / "arrival.sqlite")):
        with closing(cell):
            for first in range(0, 20_000, 1_000):
                add_links(cell, *(found(page(f"/a-page-of-a-large-host/{first + each}")) for each in range(1_000)))
            cell.shrink_log()
            for first in range(20_000, 22_000, 200):
                add_links(cell, *(found(page(f"/a-page-of-a-large-host/{first + each}")) for each in range(200)))
            written.append(log_bytes(cell.path))
    assert written[1] < 0.75 * written[0], written


@pytest.mark.parametrize("seed", range(3))
def test_cells_of_earlier_versions_hold_the_same_rows(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = tmp_path / "keys.sqlite", tmp_path / "arrival.sqlite"
    for cell in (cell_by_keys(paths[0], monkeypatch), FrontierCell(paths[1])):
        with closing(cell):
            change_at_random(cell, seed, 40)
            assert_counters_are_true(cell)
    old, new = (
        [line for line in dump(path) if "CREATE TABLE urls" not in line and "sqlite_" not in line] for path in paths
    )
    assert old == new
