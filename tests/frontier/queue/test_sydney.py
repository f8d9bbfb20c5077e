"""Which links of a page go ahead in a crawl by the Sydney strategy (A6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from teia.config.sections import SydneySettings
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import FoundUrl
from teia.frontier.cell.schema import STATE_DONE
from teia.frontier.queue.order import Hint, is_aside, order_named
from teia.frontier.queue.sydney import draw, sample_links
from teia.urls import key_of
from tests.frontier.cells import (
    HOST,
    NOW_S,
    add_links,
    assert_counters_are_true,
    found,
    items,
    next_urls,
    page,
    row,
    settle,
)

LINKS = 3


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[FrontierCell]:
    opened = FrontierCell(tmp_path / "frontier.sqlite", order_named("sydney", SydneySettings(links=LINKS, seed=5)))
    yield opened
    opened.close()


def links(source: str, *targets: str, depth: int = 1) -> list[FoundUrl]:
    """The links of one page."""
    hint = Hint(page=key_of(source))
    return [replace(found(target, depth), hint=hint) for target in targets]


def ahead_and_aside(cell: FrontierCell) -> tuple[set[str], set[str]]:
    ranks = {url: is_aside(item.rank) for item in items(cell) if (url := item.url)}
    return {url for url, aside in ranks.items() if not aside}, {url for url, aside in ranks.items() if aside}


def by_draw(source: str, *targets: str, seed: int = 5) -> list[str]:
    return sorted(targets, key=lambda target: draw(seed, key_of(source), key_of(target)))


def test_a_page_with_few_new_links_sends_all_ahead(cell: FrontierCell) -> None:
    add_links(cell, *links(page(0), page(1), page(2), page(3)))
    assert ahead_and_aside(cell) == ({page(1), page(2), page(3)}, set())


def test_of_many_new_links_the_drawn_ones_go_ahead_and_the_rest_is_taken_last(cell: FrontierCell) -> None:
    targets = [page(number) for number in range(1, 9)]
    drawn = by_draw(page(0), *targets)[:LINKS]
    add_links(cell, *links(page(0), *targets))
    add_links(cell, *links(page(99), page("deep"), depth=7))
    order = next_urls(cell)
    assert set(order[:LINKS]) == set(drawn)
    assert order[LINKS] == page("deep"), "the primary queue is breadth-first, the deepest of it is before the secondary"
    assert order[LINKS + 1 :] == [target for target in targets if target not in drawn], "in the order they were found"
    assert_counters_are_true(cell)


def test_only_new_links_are_drawn_from(cell: FrontierCell) -> None:
    known = [page(f"menu/{number}") for number in range(6)]
    for target in known:
        add_links(cell, *links(page(0), target))
    fresh = [page(number) for number in range(LINKS)]
    add_links(cell, *links(page(1), *known, *fresh))
    assert ahead_and_aside(cell)[0] >= set(fresh)


def test_a_visited_page_is_not_drawn_again(cell: FrontierCell) -> None:
    targets = [page(number) for number in range(1, 8)]
    add_links(cell, *links(page(0), *targets))
    for item in items(cell)[:LINKS]:
        settle(cell, item, STATE_DONE)
    ahead, aside = ahead_and_aside(cell)
    assert not ahead
    add_links(cell, *links(page(77), *targets))
    assert ahead_and_aside(cell)[0] == set(by_draw(page(77), *aside)[:LINKS])


def test_what_waits_aside_has_another_chance_with_every_page_that_names_it(cell: FrontierCell) -> None:
    targets = [page(number) for number in range(1, 6)]
    add_links(cell, *links(page(0), *targets))
    _, aside = ahead_and_aside(cell)
    add_links(cell, *links(page(1), *aside))
    assert ahead_and_aside(cell) == (set(targets), set())


def test_pages_of_one_commit_draw_one_after_the_other(cell: FrontierCell) -> None:
    targets = [page(number) for number in range(1, 9)]
    first = by_draw(page(0), *targets)[:LINKS]
    left = [target for target in targets if target not in first]
    second = by_draw(page(1), *left)[:LINKS]
    add_links(cell, *links(page(0), *targets), *links(page(1), *targets))
    assert ahead_and_aside(cell) == (set(first + second), set(targets) - set(first + second))
    assert row(cell, targets[0])["in_links"] == 2


def test_every_host_has_a_sample_of_its_own(cell: FrontierCell) -> None:
    here = [page(number) for number in range(LINKS)]
    there = [f"http://other.test/{number}" for number in range(LINKS)]
    add_links(cell, *links(page("hub"), *here, *there))
    assert not any(is_aside(item.rank) for item in [*items(cell), *items(cell, host="other.test")])


def test_seeds_go_ahead_however_many_there_are(cell: FrontierCell) -> None:
    add_links(cell, *(found(page(number), 0) for number in range(20)))
    assert len(ahead_and_aside(cell)[0]) == 20


def test_the_draw_depends_on_seed_page_and_link_alone() -> None:
    targets = [page(number) for number in range(1, 30)]

    def drawn(seed: int, source: str, order: list[str]) -> set[str]:
        marked = sample_links(links(source, *order), LINKS, seed, lambda _: True)
        return {item.tail for item in marked if item.hint is not None and item.hint.score}

    assert drawn(1, page(0), targets) == drawn(1, page(0), targets[::-1])
    assert drawn(1, page(0), targets) != drawn(2, page(0), targets)
    assert drawn(1, page(0), targets) != drawn(1, page(99), targets)
    assert len(drawn(1, page(0), targets)) == LINKS


def test_order_is_the_same_after_the_cell_was_opened_again(cell: FrontierCell) -> None:
    for source in range(4):
        add_links(cell, *links(page(f"s{source}"), *(page(f"{source}/{number}") for number in range(7)), depth=source))
    before = next_urls(cell)
    cell.close()
    again = FrontierCell(cell.path, cell.order)
    assert next_urls(again) == before
    add_links(again, *links(page("late"), *(page(f"late/{number}") for number in range(7))))
    assert_counters_are_true(again)
    again.close()


def test_nothing_is_lost_aside(cell: FrontierCell) -> None:
    targets = {page(number) for number in range(40)}
    add_links(cell, *links(page("hub"), *targets))
    taken = set()
    while waiting := items(cell, 1):
        taken.add(waiting[0].url)
        settle(cell, waiting[0], STATE_DONE)
    assert taken == targets
    assert (cell.queued, cell.host_id(HOST, NOW_S)) == (0, 1)
