"""Progress of long commands on standard error, with an estimate of the rest, and the last line: what to do next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from teia.cli.output import progress_console
from teia.cli.progress import duration, size
from teia.clock import Clock, WallClock
from teia.lib.progress import Work, counted_work, left_s
from teia.store.root import Root

FRAME_S = 0.5
LINE_S = 10.0
"""Seconds between two lines where standard error is no terminal."""


@contextmanager
def shown_work(
    doing: str, total: float, shown: Callable[[float], str] = size, clock: Clock | None = None
) -> Iterator[Work]:
    """Show the progress of the work within the block; `shown` formats amounts of it."""
    clock, console, ending = clock or WallClock(), progress_console(), Event()
    began = clock.ticks_s()
    with counted_work(total) as work, console.status(doing) as status:

        def show() -> None:
            while not ending.wait(FRAME_S if console.is_terminal else LINE_S):
                line = progress_text(doing, work, clock.ticks_s() - began, shown)
                if console.is_terminal:
                    status.update(line)
                else:
                    console.print(line, markup=False)

        thread = Thread(target=show, name="progress", daemon=True)
        thread.start()
        try:
            yield work
        finally:
            ending.set()
            thread.join()


def progress_text(doing: str, work: Work, passed_s: float, shown: Callable[[float], str]) -> str:
    """Return a line such as `reading the archive: 42%, 1.2 GB of 2.9 GB, about 3 min left`."""
    if work.share is None:
        return f"{doing}: {shown(work.done)}" if work.done else doing
    rest_s = left_s(work, passed_s)
    rest = "no estimate yet" if rest_s is None else f"about {duration(rest_s)} left"
    return f"{doing}: {work.share:.0%}, {shown(work.done)} of {shown(work.total)}, {rest}"


def count(number: float) -> str:
    """Format an amount that is a number of things."""
    return f"{number:,.0f}"


def archive_bytes(root: Root, name: str) -> int:
    """Return the size of a collection's archive."""
    return sum(bytes_of(folder.archive.glob("*.warc.gz")) for folder in root.collection(name).cells())


def bytes_of(paths: Iterator[Path]) -> int:
    return sum(path.stat().st_size for path in paths if path.is_file())


def print_next(line: str) -> None:
    """Print the last line of a command."""
    progress_console().print(f"next: {line}", markup=False, soft_wrap=True)
