"""Things to try on the front page of a demonstration, by a file that `teia demo` writes."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from teia.durable import write_atomically
from teia.lib.undecodable import UNDECODABLE
from teia.store.root import Root

FILE = "tour.json"


class Tour(msgspec.Struct, frozen=True):
    """The collection of a demonstration, and a page of it with many links."""

    collection: str
    url: str


def write_tour(root: Root, tour: Tour) -> None:
    """Make this folder a demonstration."""
    write_atomically(root.path / FILE, msgspec.json.encode(tour))


def read_tour(root: Root) -> Tour | None:
    """Return the tour of a folder; None if it is no demonstration."""
    with suppress(OSError, *UNDECODABLE):
        return msgspec.json.decode((root.path / FILE).read_bytes(), type=Tour)
    return None
