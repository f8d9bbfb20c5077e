"""A cell with pages in all states, for the verbs that read it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.rows import CaptureLocation, PageRow
from teia.frontier.cell.schema import STATE_DONE, STATE_FAILED
from tests.frontier.cells import NOW_S, add_links, found, items, page, settle

OTHER = "http://other.org/"


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[FrontierCell]:
    """Of example.org: 1 with a capture, 2 not found, 3 queued; of other.org: a capture that forbids the index."""
    made = FrontierCell(tmp_path / "frontier.sqlite")
    add_links(made, found(page(1), in_links=3), found(page(2)), found(page(3)), found(OTHER, depth=2))
    good = PageRow(200, b"1" * 20, b"t" * 20, 7, "text/html", "pt", "One", etag='"a"')
    first, second, _ = items(made)
    (other,) = items(made, host="other.org")
    settle(made, first, STATE_DONE, learnt=good, archived=CaptureLocation("a.warc.gz", 10, 5))
    settle(made, second, STATE_FAILED, "404", time_s=NOW_S + 1, learnt=PageRow(404))
    forbidden = good._replace(noindex=True, title="Other")
    settle(made, other, STATE_DONE, time_s=NOW_S + 2, learnt=forbidden, archived=CaptureLocation("a.warc.gz", 15, 5))
    yield made
    made.close()
