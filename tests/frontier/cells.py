"""What the tests of a cell share: links, visits and looks at its tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import CaptureLocation, FoundUrl, PageRow, QueuedUrl, SettledVisit, tail_of
from teia.frontier.cell.schema import STATE_QUEUED
from teia.urls import key_of, split

NOW_S = 1_700_000_000.0
HOST = "example.org"


def found(url: str, depth: int = 1, in_links: int = 1, hops: int = 0) -> FoundUrl:
    host = split(url).host
    return FoundUrl(host, key_of(url), tail_of(url, host), depth, in_links, hops)


def page(number: int | str) -> str:
    return f"http://{HOST}/{number}"


def add_links(cell: FrontierCell, *links: FoundUrl, now_s: float = NOW_S) -> list[tuple[int, str]]:
    with cell.transaction():
        return cell.add_links(links, now_s)


def next_urls(cell: FrontierCell, limit: int = 100, now_s: float = NOW_S, host: str = HOST) -> list[str]:
    return [item.url for item in items(cell, limit, now_s=now_s, host=host)]


def items(
    cell: FrontierCell, limit: int = 100, skip: set[int] | None = None, now_s: float = NOW_S, host: str = HOST
) -> list[QueuedUrl]:
    return cell.next_urls(cell.host_id(host, now_s), host, limit, skip or set(), now_s)


def settle(
    cell: FrontierCell,
    item: QueuedUrl,
    state: int,
    outcome: str = "200",
    *,
    time_s: float = NOW_S,
    again_s: float = 0.0,
    learnt: PageRow | None = None,
    archived: CaptureLocation | None = None,
) -> None:
    host = split(item.url).host
    with cell.transaction():
        host_id = cell.host_id(host, time_s)
        cell.settle(
            SettledVisit(host_id, item, outcome, state, time_s, again_s, learnt, archived or CaptureLocation()), host
        )


def row(cell: FrontierCell, url: str) -> dict[str, object]:
    """One URL's row of the `urls` table."""
    cursor = cell.db.execute("SELECT * FROM urls WHERE key = ?", (key_of(url),))
    return dict(zip([column[0] for column in cursor.description], cursor.fetchone(), strict=True))


def page_row(cell: FrontierCell, url: str) -> dict[str, object]:
    cursor = cell.db.execute("SELECT * FROM pages WHERE key = ?", (key_of(url),))
    return dict(zip([column[0] for column in cursor.description], cursor.fetchone(), strict=True))


def assert_counters_are_true(cell: FrontierCell) -> None:
    assert cell.known == cell.db.execute("SELECT count(*) FROM urls").fetchone()[0]
    assert cell.queued == cell.db.execute("SELECT count(*) FROM queue").fetchone()[0]
    assert cell.captures == cell.db.execute("SELECT count(*) FROM visits WHERE length > 0").fetchone()[0]


def assert_queue_and_urls_agree(cell: FrontierCell) -> None:
    """Every queued URL is in the queue once, at the place its own row names; nothing else is."""
    in_queue = cell.db.execute("SELECT slot, host_id, key, lane, rank FROM queue ORDER BY 1, 2, 3").fetchall()
    sql = "SELECT slot, host_id, key, lane, rank FROM urls WHERE state = ? ORDER BY 1, 2, 3"
    assert in_queue == cell.db.execute(sql, (STATE_QUEUED,)).fetchall()


def image(cell: FrontierCell) -> list[str]:
    return list(cell.db.iterdump())


@contextmanager
def given_up(cell: FrontierCell) -> Iterator[None]:
    """A transaction that fails at its very end."""
    with suppress(ZeroDivisionError), cell.transaction():
        yield
        raise ZeroDivisionError
