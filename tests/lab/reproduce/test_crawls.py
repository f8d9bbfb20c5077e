"""The experiments that crawl a world: C5, T8 and F9, in small."""

from __future__ import annotations

import pytest

from teia.lab.reproduce import crawled
from teia.lab.reproduce.sessions import error_table, reference_figure, size_table
from teia.lab.reproduce.statuses import PAGES_PER_HOST, PUBLISHED, WORLD, status_table
from teia.lab.reproduce.types import IndexedWorld, space_table, time_table
from teia.lab.world.exchange import WorldRequest
from teia.lab.world.hosts import zipf_sizes
from teia.lab.world.spec import WorldSpec
from teia.lab.world.url_kinds import UrlKind
from teia.lab.world.world import World
from teia.views.reports.errors import ErrorRow, Errors
from teia.views.reports.links import InlinkRange, Links
from teia.views.reports.outcomes import OutcomeRow, Outcomes
from teia.views.reports.servers import part_holding
from teia.views.reports.space import BytesRow, SpaceReport
from teia.views.reports.types import TypeRow, Types


def test_published_statuses_are_those_of_the_paper() -> None:
    assert sum(PUBLISHED.values()) == 796_629
    assert (PUBLISHED[200], PUBLISHED[302], PUBLISHED[-11], PUBLISHED[-7]) == (676_261, 50_263, 31_086, 414)


def test_outcomes_of_one_code_are_added_and_those_without_stand_alone() -> None:
    rows = (
        OutcomeRow("200", 200, "", 6, 0.6, 6),
        OutcomeRow("connect", -11, "", 2, 0.2, 6),
        OutcomeRow("dns", -11, "", 1, 0.1, 0),
        OutcomeRow("redirect_loop", None, "redirect loop", 1, 0.1, 1),
    )
    table = status_table(Outcomes(10, 13, rows), 4, 2)
    by_code = {row.labels[0]: row for row in table.rows}
    assert by_code["-11"].labels[2:] == ("connect dns", "31086", "3")
    assert by_code["-11"].ours == pytest.approx(30)
    assert by_code["-11"].other == pytest.approx(100 * 31086 / 796_629)
    assert by_code[""].labels[2] == "redirect_loop"
    assert by_code[""].other is None


def test_references_per_url_count_downwards() -> None:
    spread = (
        InlinkRange(0, 0, 4, 0.4),
        InlinkRange(1, 1, 3, 0.3),
        InlinkRange(2, 3, 2, 0.2),
        InlinkRange(4, 7, 1, 0.1),
    )
    figure = reference_figure(Links(1, 9, 9, 0, 0, 0, 9.0, 0, 10, 0.9, (), spread, ()))
    (series,) = figure.series
    assert (series.x, series.y) == ((1.0, 2.0, 4.0), (6.0, 3.0, 1.0))


def test_t8_crawls_a_world_with_the_skew_of_the_paper() -> None:
    spec = WorldSpec.from_values({"pages": crawled.PAGES, "hosts": crawled.PAGES // PAGES_PER_HOST, **WORLD})
    sizes = zipf_sizes(spec.pages, spec.host_count, spec.sites.theta, spec.sites.offset)
    assert 0.07 <= part_holding(sizes, 0.8) <= 0.09


def test_session_tables_have_every_line_of_cobwebs() -> None:
    """Tables 4 and 6; feeds are no documents of CoBWeb's, and what a rule refused is no error."""
    of_types = (
        TypeRow("text/html", 90, 0.9, 90, 0, 90 * 2048, 2048.0),
        TypeRow("application/pdf", 10, 0.1, 10, 0, 10 * 4096, 4096.0),
        TypeRow("application/rss+xml", 5, 0.05, 5, 0, 5, 1.0),
    )
    size = {row.labels: row for row in size_table(Types(105, 50, 0, 0, of_types)).rows}
    assert (size["HTML collected", "number"].ours, size["total collected", "number"].ours) == (90, 100)
    assert (size["other collected", "mean, KiB"].ours, size["total collected", "total, MiB"].ours) == (4, 220 / 1024)
    assert size["URLs to be collected", "% of all collected"].ours == 50
    assert size["URLs to be collected", "% of all collected"].other == pytest.approx(100 * 422_512 / 1_130_995)
    failures = (
        ErrorRow("client", "404", 404, "", 6, 0.6, 1, "", ()),
        ErrorRow("network", "connect", -11, "", 3, 0.3, 1, "", ()),
        ErrorRow("ours", "system", None, "", 1, 0.1, 1, "", ()),
        ErrorRow("refused", "robots", -7, "", 99, 0.1, 1, "", ()),
    )
    errors = {row.labels[0]: (row.labels[1:], row.ours) for row in error_table(Errors(200, 109, failures, ())).rows}
    assert errors["404"] == (("99,957", "6"), 60.0)
    assert errors["server not found"][1] == 30.0
    assert errors["total"] == (("161,607", "10"), 100.0)


def test_pages_of_the_lab_link_to_mail_addresses() -> None:
    """So that C5 has something to count."""
    world = World(WorldSpec.from_values({"pages": 40, "hosts": 1, "text.mail": 1.0}), epoch_s=0.0, port=80)
    space = world.spaces[0]
    slot = next(slot for slot in range(40) if space.kind(slot) is UrlKind.PAGE)
    target = f"/{space.path(slot).decode()}"
    answer = world.answer(WorldRequest(space.host.name, target), 0.0)
    assert b"mailto:author" in answer.body


def test_index_of_a_crawl_stands_beside_the_papers() -> None:
    """F9: table 24 in bytes a page, and the times of sorting and indexing."""
    names = ("wire", "decoded", "warc", "cdxj", "frontier", "log", "index", "disk")
    table = space_table(SpaceReport(10, tuple(BytesRow(name, 1000, 100.0) for name in names), ()), indexed=8)
    index = next(row for row in table.rows if "index" in row.labels[0])
    assert (index.ours, index.other) == (125, pytest.approx((2_053 + 1_377) * 2**20 / 609_212))
    seconds = 2.0
    times = {row.labels[0]: row for row in time_table(10, seconds, 0.1, IndexedWorld(8, 0.4)).rows}
    assert times["sorting and indexing 1,000 pages, s"].ours == 50
    assert times["sorting and indexing 1,000 pages, s"].other == pytest.approx(1000 * 6_333.98 / 609_212)
    assert times["pages a second"].ours == 5
