"""Charts as SVG, drawn by the server: no script, no style attribute, numbers as text.

Each chart is drawn twice, 720 and 360 units wide, and the style sheet shows the one that fits: one drawing scaled to a
phone would have letters of 5 pixels. Colours and dashes are classes. Every chart states its finding in its `<desc>` and
has its numbers in a table below. Missing measurements leave a gap in a line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil, floor, log10
from typing import Any

from markupsafe import Markup

from teia.web.charts.scales import Axis, Point, pieces, round_up
from teia.web.language.numbers import DAY, MINUTE, Locale

LABEL = 24
"""Half the width of a time label below an axis."""

NAME_STEP = 15.0
NAME_CHARS = 10
"""Longest name that fits beside the end of a line; longer names are listed below the plot."""

TABLE_ROWS = 100
"""Most rows of a table; longer ones are thinned. The CSV and the JSON have all rows."""

KEY_HEIGHT = 18
"""Height of a name in the list below a plot."""

READOUT = Markup('<span class="readout" hidden="" aria-hidden="true"></span>')
"""Place beside a title where charts.js shows the values below the pointer."""


@dataclass(frozen=True, slots=True)
class ChartFrame:
    """Layout of one of the two drawings: its size, its plot area, and the number of ticks that fit."""

    name: str
    width: int
    height: int
    left: int
    right: int
    bottom: int
    ticks: int
    top: int = 14

    @property
    def x1(self) -> int:
        return self.width - self.right

    @property
    def y1(self) -> int:
        return self.height - self.bottom


FRAMES = (ChartFrame("wide", 720, 220, 56, 96, 30, 6), ChartFrame("narrow", 360, 220, 48, 84, 32, 3))


@dataclass(frozen=True, slots=True)
class Line:
    """One series; `style` is the class that gives it colour and dash. A value of None is a gap.

    `squares` draws hollow points without a line, for numbers that other authors published.
    """

    name: str
    points: Sequence[Point]
    style: str = "s1"
    marked: bool = False
    squares: bool = False


@dataclass(frozen=True, slots=True)
class BarPart:
    """Part of a stacked bar."""

    name: str
    value: float
    style: str = "s1"


@dataclass(frozen=True, slots=True)
class Bar:
    """One of several bars: a value, its interval, and a reference mark."""

    name: str
    value: float
    style: str = "s1"
    low: float | None = None
    high: float | None = None
    mark: float | None = None


def points_from(rows: Iterable[Mapping[str, Any]], value: str) -> list[Point]:
    """Return a column of rows that have a `start` as the points of a line."""
    return [(datetime.fromisoformat(row["start"]).timestamp(), row[value]) for row in rows]


def stacks_from(rows: Iterable[Mapping[str, Any]], values: Sequence[str]) -> list[tuple[float, list[float]]]:
    """Return some columns of rows that have a `start` as stacked columns."""
    return [(datetime.fromisoformat(row["start"]).timestamp(), [row[each] for each in values]) for row in rows]


class Charts:
    """Chart drawing in one language; templates use it as `charts`."""

    def __init__(self, locale: Locale, gettext: Callable[[str], str]) -> None:
        self._locale = locale
        self.gettext = gettext

    # ---- kinds of charts --------------------------------------------------------------------------------------------

    def lines(
        self,
        name: str,
        title: str,
        finding: str,
        series: Sequence[Line],
        unit: str = "",
        *,
        y: tuple[float, float] | None = None,
        digits: int | None = None,
        share: bool = False,
        span: tuple[float, float] | None = None,
        shown: Callable[[float], str] | None = None,
    ) -> Markup:
        """Draw series over time, each named at its end, from 0 unless `y` is given. `share`: values are parts of 1.

        `span` are the times at the ends of the axis, the same for all charts of a page. `shown` formats the values.
        """
        times = [x for line in series for x, _ in line.points] or [0.0]
        low, high = y or (0.0, round_up(value for line in series for _, value in line.points))
        across = Axis(*(span or (min(times), max(times))), kind="time")
        up = Axis(low, high, unit, is_whole=digits == 0)
        show = shown or self._formatter(up, digits, share=share)

        def draw(frame: ChartFrame) -> Markup:
            scale = _make_scale(frame, across, up)
            parts = [self._grid(frame, across, up, show)]
            parts += [_polyline(line, scale, frame) for line in series]
            return Markup("").join([*parts, *(_key(frame, series) if is_long else _names(frame, series, scale))])

        is_long = _has_long_name(series)
        height = FRAMES[0].height + KEY_HEIGHT * len(series) + 18 if is_long else 0
        rows = [[each, *values] for each, *values in _by_time(series)]
        table = self._table(
            [self.gettext("time"), *(line.name for line in series)], rows, show, [row[0] for row in rows]
        )
        return self._figure(name, title, finding, draw, table, height, across)

    def curves(
        self,
        name: str,
        title: str,
        finding: str,
        series: Sequence[Line],
        unit: str = "",
        across: str = "",
        *,
        log: tuple[bool, bool] = (False, False),
        is_whole: bool = False,
    ) -> Markup:
        """Draw series over a number; `log` tells which of the axes, across and up, are logarithmic.

        `is_whole`: the numbers across are whole, such as those of runs.
        """
        xs = [x for line in series for x, _ in line.points] or [0.0]
        ys = [y for line in series for _, y in line.points if y is not None] or [1.0]
        along = Axis(*_span(xs, log=log[0]), kind="log") if log[0] else Axis(min(xs), max(xs), is_whole=is_whole)
        up = Axis(*_span(ys, log=True), unit, "log") if log[1] else Axis(min(0.0, *ys), round_up(ys), unit)
        show = self._short if log[1] else self._formatter(up, None)
        is_long = _has_long_name(series)
        height = FRAMES[0].height + 18 + (KEY_HEIGHT * len(series) if is_long else 0)

        def draw(frame: ChartFrame) -> Markup:
            scale = _make_scale(frame, along, up)
            parts = [self._grid(frame, along, up, show)]
            parts += [_squares(line, scale) if line.squares else _polyline(line, scale, frame) for line in series]
            parts += _key(frame, series) if is_long else _names(frame, series, scale)
            return Markup("").join([*parts, _text(frame.x1, frame.height + 10, across, "end")])

        found = _by_time(series)
        rows = [[self._short(each or 0.0), *values] for each, *values in found]
        head = [across or "x", *(line.name for line in series)]
        table = self._table(head, rows, self._short, [row[0] for row in found])
        return self._figure(name, title, finding, draw, table, height, along)

    def bars(
        self,
        name: str,
        title: str,
        finding: str,
        bars: Sequence[Bar],
        mark: str = "",
        *,
        share: bool = False,
        is_data: bool = False,
    ) -> Markup:
        """Draw values side by side, from 0, each named above its bar; `mark` names the reference mark.

        `is_data`: the names are data, such as hosts, and belong to no language.
        """
        ends = [each for bar in bars for each in (bar.value, bar.high, bar.mark) if each is not None]
        across = Axis(0.0, round_up(ends))
        show = self._formatter(across, 1, share=True) if share else self._short

        def draw(frame: ChartFrame) -> Markup:
            drawn, end = [], frame.width - 2
            for row, bar in enumerate(bars):
                # A bar takes 38 units: its name, the bar below it, and a gap.
                y = 14 + 38 * row
                amounts = f" {show(bar.value)}" + ("" if bar.mark is None else f" · {mark} {show(bar.mark)}")
                # A letter is about 8 units wide; the amounts are always whole.
                room = frame.width // 8 - len(amounts)
                label = (bar.name if len(bar.name) <= room else f"{bar.name[: room - 1]}…") + amounts
                drawn.append(_text(1, y, label, "name"))
                drawn.append(_rect(1, y + 6, across.position(bar.value, 1, end) - 1, 12, f"fill {bar.style}"))
                if bar.low is not None and bar.high is not None:
                    x, x2 = across.position(bar.low, 1, end), across.position(bar.high, 1, end)
                    drawn.append(_stroke("whisker", x, y + 12, x2, y + 12))
                if bar.mark is not None:
                    x = across.position(bar.mark, 1, end)
                    drawn.append(_stroke("mark", x, y + 3, x, y + 21))
            return Markup("").join(drawn)

        has_span, has_mark = any(bar.low is not None for bar in bars), any(bar.mark is not None for bar in bars)
        spans = [self.gettext("at least"), self.gettext("at most")] if has_span else []
        head = [self.gettext("what"), self.gettext("amount"), *spans, *([mark] if has_mark else [])]
        rows: list[list[object]] = [
            [bar.name, bar.value, *([bar.low, bar.high] if has_span else []), *([bar.mark] if has_mark else [])]
            for bar in bars
        ]
        table = self._table(head, rows, show, is_data=is_data)
        return self._figure(name, title, finding, draw, table, height=8 + 38 * len(bars), is_data=is_data)

    def parts(
        self,
        name: str,
        title: str,
        finding: str,
        parts: Sequence[BarPart],
        digits: int | None = None,
        shown: Callable[[float], str] | None = None,
        *,
        is_data: bool = False,
    ) -> Markup:
        """Draw one bar of labelled parts that add up; `shown` formats their amounts, `is_data` as in `bars`."""
        total = sum(part.value for part in parts) or 1.0
        are_counts = all(isinstance(part.value, int) for part in parts)
        show = shown or self._formatter(Axis(0, total), 0 if are_counts else digits)

        def draw(frame: ChartFrame) -> Markup:
            drawn, x, row = [], 1.0, 0
            for part in parts:
                width = part.value / total * (frame.width - 2)
                drawn.append(_rect(x, 8, width, 28, f"fill {part.style}"))
                y = 62 + 20 * row
                drawn.append(_rect(1, y - 10, 12, 12, f"fill {part.style}"))
                drawn.append(_text(20, y, f"{part.name} {show(part.value)}"))
                x, row = x + width, row + 1
            return Markup("").join(drawn)

        table = self._table(
            [self.gettext("what"), self.gettext("amount")],
            [[part.name, part.value] for part in parts],
            show,
            is_data=is_data,
        )
        return self._figure(name, title, finding, draw, table, height=56 + 20 * len(parts), is_data=is_data)

    def columns(
        self,
        name: str,
        title: str,
        finding: str,
        bins: Sequence[tuple[float, Sequence[float]]],
        of: Sequence[BarPart],
        unit: str = "",
        *,
        step_s: float = 0.0,
        span: tuple[float, float] | None = None,
    ) -> Markup:
        """Draw stacked columns over time, named below the plot: parts of 1, or counts if there is a `unit`.

        `of` gives names and looks, `step_s` the width of a column, `span` the ends of the axis.
        """
        times = [at for at, _ in bins] or [0.0]
        step = step_s or ((times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else 1.0)
        across = Axis(*(span or (times[0], times[-1] + step)), kind="time")
        up = Axis(0.0, round_up(sum(values) for _, values in bins), unit, is_whole=True) if unit else Axis(0.0, 1.0)
        show = self._formatter(up, 0, share=not unit)

        def draw(frame: ChartFrame) -> Markup:
            scale = _make_scale(frame, across, up)
            drawn = [self._grid(frame, across, up, show)]
            for at, shares in bins:
                (x, _), (x2, _), below = scale(at, 0), scale(at + step, 0), 0.0
                for part, value in zip(of, shares, strict=True):
                    (_, y1), (_, y2) = scale(at, below), scale(at, below + value)
                    # One unit of gap between columns, and never less than a visible line.
                    drawn.append(_rect(x, y2, max(0.5, x2 - x - 1), y1 - y2, f"fill {part.style}"))
                    below += value
            for row, part in enumerate(of):
                y = frame.height + KEY_HEIGHT * (row + 1) - 4
                drawn.append(_rect(frame.left, y - 10, 12, 12, f"fill {part.style}"))
                drawn.append(_text(frame.left + 20, y, part.name, "name"))
            return Markup("").join(drawn)

        height = FRAMES[0].height + KEY_HEIGHT * len(of) + 4
        rows = [[at, *shares] for at, shares in bins]
        head = [self.gettext("time"), *(part.name for part in of)]
        table = self._table(head, rows, show, [at + step / 2 for at in times] if bins else ())
        return self._figure(name, title, finding, draw, table, height, across)

    def histogram(
        self, name: str, title: str, finding: str, bins: Sequence[tuple[float, float, float]], unit: str
    ) -> Markup:
        """Draw counts between limits (from, to, count) on a logarithmic axis."""
        across = Axis(bins[0][0], bins[-1][1], unit, "log") if bins else Axis(1, 10, unit, "log")
        up = Axis(0.0, round_up(count for *_, count in bins))
        show = self._formatter(up, 0)

        def draw(frame: ChartFrame) -> Markup:
            scale = _make_scale(frame, across, up)
            drawn = [self._grid(frame, across, up, show)]
            for low, high, count in bins:
                (x, y), (x2, y0) = scale(low, count), scale(high, 0)
                drawn.append(_rect(x, y, max(0.5, x2 - x - 1), y0 - y, "fill s1"))
            return Markup("").join(drawn)

        rows = [[f"{self._plain(low)} – {self._plain(high)} {unit}", count] for low, high, count in bins]
        return self._figure(
            name, title, finding, draw, self._table([self.gettext("what"), self.gettext("amount")], rows, show)
        )

    def strip(
        self, name: str, title: str, finding: str, marks: Sequence[tuple[float, str]], span: tuple[float, float]
    ) -> Markup:
        """Draw marks on a time line; the look of a mark tells its kind."""
        across = Axis(*span, kind="time")

        def draw(frame: ChartFrame) -> Markup:
            ends = (12, frame.width - 12)
            drawn = [Markup('<line class="axis" x1="{}" y1="30" x2="{}" y2="30"/>').format(*ends)]
            for at, style in marks:
                x = across.position(at, *ends)
                drawn.append(Markup('<line class="tick {}" x1="{}" y1="12" x2="{}" y2="30"/>').format(style, x, x))
            positions = ((across.position(at, *ends), at) for at in across.ticks(frame.ticks))
            drawn += [_time_text(x, 48, at, across) for x, at in positions if LABEL < x < frame.width - LABEL]
            return Markup("").join(drawn)

        table = self._table([self.gettext("time"), self.gettext("what")], [[at, style] for at, style in marks], str)
        return self._figure(name, title, finding, draw, table, height=56)

    def spark(self, points: Sequence[Point], title: str) -> Markup:
        """Draw a line as high as a word, without axes."""
        values = [value for _, value in points if value is not None]
        if len(values) < 2:
            return Markup("")
        times = [at for at, _ in points]
        across, up = Axis(min(times), max(times), kind="time"), Axis(0.0, max(values) or 1.0)
        runs = [[(across.position(x, 0, 100), up.position(y, 22, 2)) for x, y in piece] for piece in pieces(points)]
        lines = Markup("").join(
            Markup('<polyline class="line s1" points="{}"/>').format(_coordinates(run)) for run in runs
        )
        frame = '<svg class="spark" viewBox="0 0 100 24" width="100" height="24" role="img"><title>{}</title>{}</svg>'
        return Markup(frame).format(title, lines)  # noqa: S704  # a constant, defined on the line above

    # ---- common parts -----------------------------------------------------------------------------------------------

    def _figure(
        self,
        name: str,
        title: str,
        finding: str,
        draw: Callable[[ChartFrame], Markup],
        table: Markup,
        height: int = 0,
        across: Axis | None = None,
        *,
        is_data: bool = False,
    ) -> Markup:
        """Put drawings and table together; `across` is the axis along which charts.js shows the values of the table."""
        group = Markup('<g translate="no">{}</g>' if is_data else "{}")  # noqa: S704  # constants
        drawn = [
            Markup(
                # The frame's name is part of the ids: both drawings are in one page.
                '<svg class="{}" viewBox="0 0 {} {}" role="img" aria-labelledby="{n}-t {n}-d"{}>'
                '<title id="{n}-t">{}</title><desc id="{n}-d">{}</desc>{}</svg>'
            ).format(
                frame.name, frame.width, height or frame.height, _hover(frame, across), title, finding,
                group.format(draw(frame)),
                n=f"{name}-{frame.name}",
            )
            for frame in FRAMES
        ]  # fmt: skip
        details = Markup('<details class="as-table"><summary>{}</summary>{}</details>').format(
            self.gettext("Show as table"), table
        )
        caption = Markup("<figcaption>{}{}</figcaption>").format(title, "" if across is None else READOUT)
        return Markup('<figure class="chart" id="{}">{}{}{}</figure>').format(
            name, caption, Markup("").join(drawn), details
        )

    def _table(
        self,
        head: Sequence[str],
        rows: Sequence[Sequence[object]],
        show: Callable[[float], str],
        across: Sequence[float | None] = (),
        *,
        is_data: bool = False,
    ) -> Markup:
        """Make the table behind a chart; `across` are the places of its rows on the chart's axis."""
        # Every n-th row, so that the table covers the whole range.
        every = max(1, ceil(len(rows) / TABLE_ROWS))
        cells = Markup("").join(Markup('<th scope="col">{}</th>').format(each) for each in head)
        places = [Markup(' data-x="{}"').format(_plain_number(at)) for at in across] or [Markup("")] * len(rows)
        lines = Markup("").join(
            Markup("<tr{}>{}</tr>").format(
                place, Markup("").join(self._cell(value, at, show) for at, value in enumerate(row))
            )
            for place, row in list(zip(places, rows, strict=True))[::every]
        )
        return Markup(
            '<div class="scroll" tabindex="0"><table><thead><tr>{}</tr></thead><tbody{}>{}</tbody></table></div>'
        ).format(cells, Markup(' translate="no"') if is_data else "", lines)

    def _cell(self, value: object, column: int, show: Callable[[float], str]) -> Markup:
        if value is None:
            return Markup('<td class="n">–</td>')
        if column and isinstance(value, int | float):
            return Markup('<td class="n">{}</td>').format(show(value))
        # A number in the first column is an instant.
        if isinstance(value, int | float):
            iso = datetime.fromtimestamp(value, UTC).isoformat(timespec="seconds")
            return Markup('<th scope="row"><time datetime="{}">{} UTC</time></th>').format(
                iso, self._locale.moment(value)
            )
        return Markup('<th scope="row">{}</th>').format(value)

    def _grid(self, frame: ChartFrame, across: Axis, up: Axis, show: Callable[[float], str]) -> Markup:
        """Draw the axes with their ticks and the unit; label a plot that does not begin at 0."""
        parts = []
        for value in up.ticks(4):
            y = up.position(value, frame.y1, frame.top)
            parts.append(
                Markup('<line class="grid" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(frame.left, y, frame.x1, y)
            )
            parts.append(_text(frame.left - 6, y + 4, show(value), "end"))
        # Ticks stop before the label at the right end; a letter is about 8 units wide.
        until = frame.x1 - 8 * len(across.label) - 12 if across.label else frame.x1
        for value in across.ticks(frame.ticks):
            x = across.position(value, frame.left, frame.x1)
            if across.kind == "time":
                parts.append(_time_text(x, frame.height - 8, value, across))
            elif x <= until:
                parts.append(_text(x, frame.height - 8, self._short(value), "middle"))
        if across.label:
            parts.append(_text(frame.x1, frame.height - 8, across.label, "end"))
        unit = up.label
        if up.low > 0 and up.kind != "log":
            unit = " · ".join(filter(None, (unit, self.gettext("not from 0"))))
        if unit:
            shown = unit if len(unit) <= frame.width // 8 else f"{unit[: frame.width // 8 - 1]}…"
            parts.append(_text(frame.left, frame.top - 3, shown, "unit"))
        return Markup("").join(parts)

    def _formatter(self, axis: Axis, digits: int | None, *, share: bool = False) -> Callable[[float], str]:
        """Return a formatter for the values of an axis, with as many digits as its ticks need."""
        span = (axis.high - axis.low) * (100 if share else 1)
        wanted = digits if digits is not None else max(0, min(3, 1 - floor(log10(span or 1.0))))
        return (
            (lambda value: self._locale.percent(value, wanted))
            if share
            else lambda value: self._locale.number(value, wanted)
        )

    def _short(self, value: float) -> str:
        """Format a value with at most four significant digits; from 1,000 on as a whole number."""
        if abs(value) >= 1_000:
            return self._locale.number(value)
        return f"{value:.4g}".replace(".", self._locale.decimal)

    def _plain(self, value: float) -> str:
        return self._locale.number(value, 0 if value >= 1 else min(6, -floor(log10(value or 1.0))))


def _plain_number(value: float | None) -> str:
    """Write a number for charts.js, without digits that no pixel shows."""
    return f"{value or 0.0:.10g}"


def _hover(frame: ChartFrame, across: Axis | None) -> Markup:
    """Return the attributes by which charts.js finds the value below the pointer."""
    if across is None:
        return Markup("")
    ends = (_plain_number(across.low), _plain_number(across.high), frame.left, frame.x1, frame.top, frame.y1)
    return Markup(' data-axis="{}" data-ends="{} {} {} {} {} {}"').format(across.kind, *ends)


# ---- shapes ---------------------------------------------------------------------------------------------------------


def _make_scale(frame: ChartFrame, across: Axis, up: Axis) -> Callable[[float, float], tuple[float, float]]:
    def scale(x: float, y: float) -> tuple[float, float]:
        return across.position(x, frame.left, frame.x1), up.position(y, frame.y1, frame.top)

    return scale


def _coordinates(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in points)


def _polyline(line: Line, scale: Callable[[float, float], tuple[float, float]], frame: ChartFrame) -> Markup:
    drawn: list[Markup] = []
    for piece in pieces(line.points):
        run = [scale(x, y) for x, y in piece]
        if len(run) == 1 or line.marked:
            dots = (Markup('<circle class="fill {}" cx="{}" cy="{}" r="2.5"/>').format(line.style, *at) for at in run)
            drawn.extend(dots)
        if len(run) > 1:
            drawn.append(Markup('<polyline class="line {}" points="{}"/>').format(line.style, _coordinates(run)))
    return Markup('<g class="{}">{}</g>').format(frame.name, Markup("").join(drawn))


def _has_long_name(series: Sequence[Line]) -> bool:
    """Tell whether names are listed below the plot, because one does not fit beside its line."""
    return max((len(line.name) for line in series), default=0) > NAME_CHARS


def _key(frame: ChartFrame, series: Sequence[Line]) -> list[Markup]:
    """Draw the legend below the plot."""
    drawn = []
    for row, line in enumerate(series):
        y = frame.height + 26 + KEY_HEIGHT * row
        if line.squares:
            drawn.append(_rect(frame.left + 8, y - 8, 7, 7, f"hollow {line.style}"))
        else:
            drawn.append(_stroke(f"line {line.style}", frame.left, y - 4, frame.left + 24, y - 4))
        drawn.append(_text(frame.left + 32, y, line.name, "name"))
    return drawn


def _squares(line: Line, scale: Callable[[float, float], tuple[float, float]]) -> Markup:
    at = (scale(x, y) for x, y in line.points if y is not None)
    return Markup("").join(_rect(x - 3.5, y - 3.5, 7, 7, f"hollow {line.style}") for x, y in at)


def _stroke(style: str, x: float, y: float, x2: float, y2: float) -> Markup:
    return Markup('<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(style, x, y, x2, y2)


def _span(values: Sequence[float], *, log: bool) -> tuple[float, float]:
    """Return the smallest and the largest value; only positive ones for a logarithmic axis."""
    found = [value for value in values if value > 0] if log else list(values)
    return (min(found), max(found)) if found else (1.0, 10.0)


def _names(
    frame: ChartFrame, series: Sequence[Line], scale: Callable[[float, float], tuple[float, float]]
) -> list[Markup]:
    """Place each name beside the end of its line, moved apart where names would overlap."""
    ends = [(scale(*piece[-1][-1])[1], line) for line in series if (piece := pieces(line.points))]
    ends.sort(key=lambda each: each[0])
    ys, below = [], frame.top - 4.0
    for y, _ in ends:
        # Downwards first: each name at least NAME_STEP below the last.
        below = max(y + 4, below + NAME_STEP)
        ys.append(below)
    above = frame.height + 10.0
    for at in reversed(range(len(ys))):  # move back up where there is no room below
        ys[at] = above = min(ys[at], above - NAME_STEP)
    shown = zip(ys, ends, strict=True)
    return [_text(frame.x1 + 6, y, line.name, f"name {line.style}") for y, (_, line) in shown]


def _by_time(series: Sequence[Line]) -> list[list[float | None]]:
    times = sorted({x for line in series for x, _ in line.points})
    found = [dict(line.points) for line in series]
    return [[at, *(values.get(at) for values in found)] for at in times]


def _rect(x: float, y: float, width: float, height: float, style: str) -> Markup:
    sizes = [f"{round(each, 1):g}" for each in (x, y, max(width, 0.0), max(height, 0.0))]
    return Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>').format(style, *sizes)


def _text(x: float, y: float, text: str, style: str = "") -> Markup:
    return Markup('<text x="{}" y="{}" class="{}">{}</text>').format(round(x, 1), round(y, 1), style, text)


def _time_text(x: float, y: float, at_s: float, axis: Axis) -> Markup:
    """Write an instant below an axis, in UTC; charts.js converts it to the reader's time zone."""
    at, length_s = datetime.fromtimestamp(at_s, UTC), axis.high - axis.low
    form = "day" if length_s > 1.5 * DAY else "time" if length_s >= 3 * MINUTE else "second"
    shown = {"day": f"{at:%d/%m}", "time": f"{at:%H:%M}", "second": f"{at:%H:%M:%S}"}[form]
    iso = at.isoformat(timespec="seconds")
    return Markup('<text x="{}" y="{}" class="middle" data-time="{}" data-form="{}">{}</text>').format(
        x, y, iso, form, shown
    )
