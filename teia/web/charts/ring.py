"""Geometry of the ring chart: arcs, points and curves in a square of 360 units; ring.html writes the SVG.

Identifiers begin at the top and grow clockwise. From the outside in: the letters of the nodes at their first points,
all points as ticks, the cells as arcs in the hue of their owners, and fingers and hops across the middle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import cos, pi, sin

from teia.cluster.circle.circle import SIZE, Circle, circle_id
from teia.cluster.circle.fingers import Fingers
from teia.cluster.views.host_lookup import HostLocation, circle_position
from teia.cluster.views.view import CellView, letters
from teia.urls import SLOTS

MIDDLE = 180.0
INNER, OUTER, TICK, NAME = 122.0, 148.0, 155.0, 167.0
HUES = 6
GAP = 0.0016
"""Gap between two arcs, as a part of the circle."""

ARCS_MOST = 256
"""With more cells than this, adjacent cells of one owner are drawn as one arc."""

LETTER_LEAST = 0.014
"""Shortest arc with room for a letter."""

TICKS_MOST = 400
NAMES_MOST = 52


@dataclass(frozen=True, slots=True)
class NodeStyle:
    """Letter and hue of a node; there are fewer hues than nodes, so only the letter is unique."""

    letter: str
    hue: int


@dataclass(frozen=True, slots=True)
class Arc:
    """One cell, or several adjacent cells of one owner; `letter` is empty if there is no room for it."""

    path: str
    node: str
    hue: int
    letter: str
    x: float
    y: float
    cell: CellView
    number: int
    urls: int


@dataclass(frozen=True, slots=True)
class RingMark:
    """Mark on the circle: a line across it, and the position of its letter."""

    node: str
    hue: int
    letter: str
    x1: float
    y1: float
    x2: float
    y2: float
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class RingCurve:
    """Curve across the circle: `kind` is finger, successor or hop; a hop has its number."""

    kind: str
    path: str
    number: int = 0
    x: float = 0.0
    y: float = 0.0


@dataclass(frozen=True, slots=True)
class RingChart:
    """The whole chart; `key` marks the position of a looked-up host."""

    arcs: list[Arc]
    ticks: list[RingMark]
    names: list[RingMark]
    curves: list[RingCurve]
    key: RingMark | None


def node_styles(nodes: Iterable[str]) -> dict[str, NodeStyle]:
    """Assign letters and hues to nodes, in the given order."""
    return {name: NodeStyle(letters(number), number % HUES + 1) for number, name in enumerate(nodes)}


def ring_of(
    circle: Circle,
    styles: dict[str, NodeStyle],
    cells: Sequence[CellView],
    chosen: str = "",
    where: HostLocation | None = None,
) -> RingChart:
    """Draw cells and nodes, the fingers of a chosen node, and the hops to a looked-up host."""
    homes = [home for home in where.homes if home.cell in {cell.id for cell in cells}] if where else []
    hops = [(hop.start_at, hop.end_at) for home in homes[:1] for hop in home.hops]
    curves = _fingers(circle, chosen) if chosen in circle.nodes else []
    curves += [_curve("hop", start, end, number) for number, (start, end) in enumerate(hops, 1)]
    return RingChart(
        arcs=[_arc(group, styles) for group in _groups(cells)],
        ticks=list(_ticks(circle, styles, chosen)),
        names=_names(circle, styles),
        curves=curves,
        key=None if where is None else _ring_mark(where.at, "", NodeStyle("", 0), INNER - 6, OUTER + 4),
    )


# ---- parts ----------------------------------------------------------------------------------------------------------


def _groups(cells: Sequence[CellView]) -> list[list[CellView]]:
    if len(cells) <= ARCS_MOST:
        return [[cell] for cell in cells]
    groups: list[list[CellView]] = []
    for cell in cells:
        if groups and (groups[-1][0].keeper, groups[-1][0].to) == (cell.keeper, cell.to):
            groups[-1].append(cell)
        else:
            groups.append([cell])
    return groups


def _arc(group: Sequence[CellView], styles: dict[str, NodeStyle]) -> Arc:
    start, end = group[0].first_slot / SLOTS, group[-1].end_slot / SLOTS
    style = styles.get(group[0].keeper or "", NodeStyle("", 0))
    is_long = end - start >= LETTER_LEAST
    x, y = _position((start + end) / 2, (INNER + OUTER) / 2)
    # Short arcs get a smaller gap; they would vanish otherwise.
    gap = min(GAP, (end - start) / 4)
    path = _sector(start + gap / 2, end - gap / 2)
    node, urls = group[0].keeper or "", sum(cell.urls for cell in group)
    return Arc(path, node, style.hue, style.letter if is_long else "", x, y + 4, group[0], len(group), urls)


def _ticks(circle: Circle, styles: dict[str, NodeStyle], chosen: str) -> Iterable[RingMark]:
    points = circle.points() if len(circle) <= TICKS_MOST else (p for p in circle.points() if p.node == chosen)
    return (_ring_mark(circle_position(point), point.node, styles[point.node], OUTER + 2, TICK) for point in points)


def _names(circle: Circle, styles: dict[str, NodeStyle]) -> list[RingMark]:
    if not 1 < len(circle.nodes) <= NAMES_MOST:
        return []
    return [_ring_mark(circle_id(node) / SIZE, node, styles[node], OUTER + 2, TICK + 3) for node in circle.nodes]


def _fingers(circle: Circle, node: str) -> list[RingCurve]:
    """Return the curves from a node's first point to its successor and to the fingers on other nodes."""
    point = circle.successor(circle_id(node))
    table = Fingers(circle).table(point)
    curves = [
        _curve("finger", circle_position(point), circle_position(line.to)) for line in table[1:] if line.to.node != node
    ]
    return (
        [_curve("successor", circle_position(point), circle_position(table[0].to)), *curves]
        if table[0].to != point
        else curves
    )


# ---- geometry -------------------------------------------------------------------------------------------------------


def _position(at: float, radius: float) -> tuple[float, float]:
    angle = 2 * pi * at
    return round(MIDDLE + radius * sin(angle), 2), round(MIDDLE - radius * cos(angle), 2)


def _sector(start: float, end: float) -> str:
    """Return the path of a ring segment. A whole ring is two halves: an SVG arc cannot end where it begins."""
    if end - start > 0.99:
        middle = (start + end) / 2
        return f"{_sector(start, middle)}{_sector(middle, end)}"
    # SVG's large-arc flag.
    large = int(end - start > 0.5)
    (x1, y1), (x2, y2) = _position(start, OUTER), _position(end, OUTER)
    (x3, y3), (x4, y4) = _position(end, INNER), _position(start, INNER)
    out = f"M{x1} {y1}A{OUTER:g} {OUTER:g} 0 {large} 1 {x2} {y2}"
    return f"{out}L{x3} {y3}A{INNER:g} {INNER:g} 0 {large} 0 {x4} {y4}Z"


def _ring_mark(at: float, node: str, style: NodeStyle, inner: float, outer: float) -> RingMark:
    (x1, y1), (x2, y2), (x, y) = _position(at, inner), _position(at, outer), _position(at, NAME)
    return RingMark(node, style.hue, style.letter, x1, y1, x2, y2, x, y + 4)


def _curve(kind: str, start: float, end: float, number: int = 0) -> RingCurve:
    """Return a curve bent towards the middle; short curves bend more, so that they stay visible."""
    (x1, y1), (x2, y2) = _position(start, INNER - 3), _position(end, INNER - 3)
    distance = min((end - start) % 1.0, (start - end) % 1.0)
    pull = max(0.2, 0.6 - 2 * distance)
    bend_x = (1 - pull) * (x1 + x2) / 2 + pull * MIDDLE
    bend_y = (1 - pull) * (y1 + y2) / 2 + pull * MIDDLE
    # The middle of the quadratic curve, where the number of a hop stands.
    x, y = (x1 + 2 * bend_x + x2) / 4, (y1 + 2 * bend_y + y2) / 4
    return RingCurve(kind, f"M{x1} {y1}Q{bend_x:.2f} {bend_y:.2f} {x2} {y2}", number, round(x, 2), round(y + 4, 2))
