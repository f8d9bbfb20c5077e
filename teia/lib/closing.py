"""Objects that a `with` block closes."""

from __future__ import annotations

from typing import Self


class Closing:
    """Base of classes with a method `close`: the end of a `with` block calls it."""

    __slots__ = ()

    def close(self) -> None:
        """Release what the object holds."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
