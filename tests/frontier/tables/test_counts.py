"""Counts for reports."""

from __future__ import annotations

import itertools

from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.schema import BY_LINK, STATE_DONE
from teia.frontier.tables import counts
from tests.frontier.cells import HOST, page


def test_urls_are_counted_by_outcome_links_and_source(cell: FrontierCell) -> None:
    assert counts.urls_by_outcome(cell) == {"200": 2, "404": 1}
    assert counts.urls_by_in_links(cell) == {1: 3, 3: 1}
    assert counts.urls_by_source(cell) == {BY_LINK: 4}
    assert counts.documents_by_type(cell) == {"text/html": 2}
    assert counts.count_kept(cell) == 2


def test_outcomes_of_a_host_lie_together_with_an_example(cell: FrontierCell) -> None:
    found = list(counts.outcomes_by_host(cell))
    assert {(each.host, each.outcome, each.urls) for each in found} == {
        (HOST, "200", 1), (HOST, "404", 1), ("other.org", "200", 1),
    }  # fmt: skip
    assert sum(before.host != after.host for before, after in itertools.pairwise(found)) == 1
    assert next(each.example for each in found if each.outcome == "404") == page(2)


def test_the_most_linked_urls_come_first(cell: FrontierCell) -> None:
    assert counts.most_linked(cell, 1) == [(page(1), 3, 1, STATE_DONE)]


def test_pages_are_compared_by_their_sources(cell: FrontierCell) -> None:
    found = {each.host: each for each in counts.pages_by_source(cell, ["text/html"])}
    assert found.keys() == {HOST, "other.org"}
    assert all(each.followed and not each.others for each in found.values()), "links found all of them"
    assert [(each.pages, each.failed, each.queued) for each in found.values()] == [(1, 1, 1), (1, 0, 0)]
