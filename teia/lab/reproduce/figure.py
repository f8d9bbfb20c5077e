"""A `Figure` as SVG, by matplotlib, the same bytes every time."""

from __future__ import annotations

import io
import itertools
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure as Canvas

from teia.lab.reproduce.registry import Figure

SIZE_INCHES = (7.0, 4.2)
COLOURS = ("#0B5C8A", "#C2570C", "#2E7D4F", "#8E44AD", "#8A6D00", "#5B6770")
OURS: dict[str, Any] = {"linewidth": 3.0, "alpha": 0.45}
OTHERS: dict[str, Any] = {"linewidth": 1.0, "linestyle": "--"}
"""Styles of lines: ours is broad and pale, others are thin and on top, so that both are visible where they agree."""

SAME_EVERY_TIME: dict[Any, Any] = {
    "svg.hashsalt": "teia",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "path.simplify": False,
}
"""Settings for reproducible files: ids use a fixed salt, and text stays text, independent of the installed fonts."""


def render_svg(figure: Figure) -> str:
    """Draw one figure. A line of others takes the colour of our line before it, for comparison."""
    with rc_context(SAME_EVERY_TIME):
        canvas = Canvas(figsize=SIZE_INCHES, layout="constrained")
        axes = canvas.subplots()
        colours = itertools.cycle(COLOURS)
        colour = COLOURS[0]
        for series in figure.series:
            colour = next(colours) if series.ours else colour
            axes.plot(series.x, series.y, label=series.label, color=colour, **(OURS if series.ours else OTHERS))
        axes.set(title=figure.title, xlabel=figure.x_label, ylabel=figure.y_label)
        axes.set_xscale("log" if figure.log_x else "linear")
        axes.set_yscale("log" if figure.log_y else "linear")
        axes.grid(visible=True, alpha=0.3)
        axes.legend(frameon=False)
        text = io.StringIO()
        # Otherwise matplotlib writes the date and its version into the file.
        canvas.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return text.getvalue()
