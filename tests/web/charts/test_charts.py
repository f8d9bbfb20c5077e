"""Charts: the numbers are where they should be, in the drawing and in the table beneath."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from markupsafe import Markup

from teia.web.charts.charts import BarPart, Charts, Line
from teia.web.language.numbers import ENGLISH, PORTUGUESE

CHARTS = Charts(ENGLISH, lambda text: text)
POINTS = [(1_700_000_000.0 + 60 * n, float(n)) for n in range(11)]


def parsed(chart: Markup) -> ET.Element:
    return ET.fromstring(f"<root>{chart}</root>".replace("<time ", "<t ").replace("</time>", "</t>"))  # ours


def every_chart() -> dict[str, Markup]:
    return {
        "lines": CHARTS.lines("a", "T", "F", [Line("<b>", POINTS), Line("two", POINTS[:1], "s2")], "a second"),
        "parts": CHARTS.parts("b", "T", "F", [BarPart("one", 3), BarPart("two", 1, "s2")]),
        "columns": CHARTS.columns(
            "c", "T", "F", [(0, [0.25, 0.75]), (60, [1, 0])], [BarPart("ok", 0), BarPart("no", 0, "s2")]
        ),
        "histogram": CHARTS.histogram("d", "T", "F", [(1, 2, 3), (2, 5, 1), (5, 10, 0)], "s"),
        "named below": CHARTS.lines(
            "f", "T", "F", [Line("a name that is too long", POINTS), Line("another one", POINTS)]
        ),
        "strip": CHARTS.strip("e", "T", "F", [(10.0, "s1"), (20.0, "early")], (0.0, 900.0)),
    }


@pytest.mark.parametrize("name", every_chart())
def test_every_chart_is_drawn_twice_and_says_what_it_shows(name: str) -> None:
    chart = every_chart()[name]
    root = parsed(chart)
    drawings = root.findall(".//svg")
    assert [each.attrib["class"] for each in drawings] == ["wide", "narrow"]
    for each in drawings:
        assert each.attrib["role"] == "img"
        titled, described = each.attrib["aria-labelledby"].split()
        assert each.find("title").attrib["id"] == titled  # type: ignore[union-attr]
        assert (each.find("desc").attrib["id"], each.find("desc").text) == (described, "F")  # type: ignore[union-attr]
    assert root.find(".//details/summary").text == "Show as table"  # type: ignore[union-attr]
    ids = re.findall(r'id="([^"]+)"', chart)
    assert len(ids) == len(set(ids))
    assert "style=" not in chart
    assert "<b>" not in chart, "names are text"


@pytest.mark.parametrize("chart", [*every_chart().values()])
def test_nothing_is_drawn_outside_its_frame(chart: Markup) -> None:
    for drawing in parsed(chart).findall(".//svg"):
        _, _, width, height = map(float, drawing.attrib["viewBox"].split())
        for shape in drawing.iter():
            for name in ("x", "x1", "x2", "cx"):
                assert 0 <= float(shape.attrib.get(name, 0)) <= width
            for name in ("y", "y1", "y2", "cy"):
                assert 0 <= float(shape.attrib.get(name, 0)) <= height
            if shape.tag == "text":
                assert float(shape.attrib["y"]) <= height - 4, "with the part of letters that is below the line"
            for pair in shape.attrib.get("points", "").split():
                x, y = map(float, pair.split(","))
                assert 0 <= x <= width
                assert 0 <= y <= height


def test_a_line_ends_at_its_values() -> None:
    wide = parsed(CHARTS.lines("a", "T", "F", [Line("one", POINTS)])).find(".//svg")
    assert wide is not None
    points = [tuple(map(float, pair.split(","))) for pair in wide.find(".//polyline").attrib["points"].split()]  # type: ignore[union-attr]
    assert points[0] == (56, 190), "0 at the left bottom"
    assert points[-1] == (624, 14), "10 of 10 at the right top"
    assert len(points) == 11


def test_a_gap_is_not_drawn_over() -> None:
    with_gap = [*POINTS[:4], (POINTS[4][0], None), *POINTS[5:]]
    wide = parsed(CHARTS.lines("a", "T", "F", [Line("one", with_gap)])).find(".//svg")
    assert wide is not None
    assert [len(each.attrib["points"].split()) for each in wide.iter("polyline")] == [4, 6]
    assert '<td class="n">–</td>' in CHARTS.lines("a", "T", "F", [Line("one", with_gap)])


def test_parts_are_as_wide_as_their_share() -> None:
    wide = parsed(CHARTS.parts("b", "T", "F", [BarPart("one", 3), BarPart("two", 1, "s2"), BarPart("none", 0)])).find(
        ".//svg"
    )
    assert wide is not None
    bars = [float(each.attrib["width"]) for each in wide.iter("rect") if each.attrib["height"] == "28"]
    assert bars == [538.5, 179.5, 0]
    labels = [each.text for each in wide.iter("text")]
    assert labels == ["one 3", "two 1", "none 0"]


def test_columns_stack_to_the_top() -> None:
    wide = parsed(every_chart()["columns"]).find(".//svg")
    assert wide is not None
    heights = [float(each.attrib["height"]) for each in wide.iter("rect")]
    assert heights[0] + heights[1] == pytest.approx(176, abs=0.2)
    assert heights[0] == pytest.approx(44, abs=0.2)


def test_an_axis_that_does_not_begin_at_zero_says_so() -> None:
    assert "not from 0" in CHARTS.lines("a", "T", "F", [Line("one", [(0, 0.85), (60, 0.9)])], y=(0.8, 0.9), share=True)
    assert "not from 0" not in CHARTS.lines("a", "T", "F", [Line("one", POINTS)])


def test_numbers_are_written_as_the_language_does() -> None:
    points = [(0.0, 0.0), (60.0, 12_000.0)]
    assert "10,000" in CHARTS.lines("a", "T", "F", [Line("one", points)])
    assert "10.000" in Charts(PORTUGUESE, str).lines("a", "T", "F", [Line("one", points)])


def test_long_tables_are_thinned_and_empty_charts_are_drawn() -> None:
    long = CHARTS.lines("a", "T", "F", [Line("one", [(60.0 * n, 1.0) for n in range(5_000)])])
    assert long.count("<tr>") <= 102
    for empty in (
        CHARTS.lines("a", "T", "F", []),
        CHARTS.histogram("d", "T", "F", [], "s"),
        CHARTS.parts("b", "T", "F", []),
    ):
        assert parsed(empty).find(".//svg") is not None
    assert CHARTS.spark([(0, 1)], "x") == ""
    assert "<polyline" in CHARTS.spark(POINTS, "x")


def test_a_chart_over_time_says_where_its_values_are_and_counts_have_whole_ticks() -> None:
    chart = CHARTS.lines("a", "T", "F", [Line("one", POINTS)], digits=0, span=(1_700_000_000.0, 1_700_003_600.0))
    wide = parsed(chart).find(".//svg[@class='wide']")
    assert wide is not None
    assert wide.attrib["data-ends"].split()[:2] == ["1700000000", "1700003600"]
    assert [row.attrib["data-x"] for row in parsed(chart).findall(".//tbody/tr")][:2] == ["1700000000", "1700000060"]
    few = CHARTS.lines("a", "T", "F", [Line("one", [(0.0, 0.0), (20.0, 1.0)])], digits=0)
    labels = [each.text for each in parsed(few).findall(".//svg[@class='wide']/text[@class='end']")]
    assert labels == ["0", "1"]
    # Twenty seconds have more than one tick.
    assert len(re.findall(r'data-form="second"', few)) > 4


def test_columns_can_be_counts() -> None:
    bins = [(0.0, [3, 1]), (60.0, [0, 2])]
    chart = CHARTS.columns("c", "T", "F", bins, [BarPart("ok", 0), BarPart("no", 0, "s2")], "requests", step_s=60)
    root = parsed(chart)
    heights = [float(each.attrib["height"]) for each in root.findall(".//svg[@class='wide']/rect")]
    assert heights[0] == pytest.approx(3 * heights[1], abs=0.2)
    assert "requests" in chart
