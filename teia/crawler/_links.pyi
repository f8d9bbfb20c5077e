from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar

from teia.records import Link, LinkKind

_T = TypeVar("_T")

class LinkRule:
    def __init__(
        self,
        anchor: LinkKind,
        by_kind: Mapping[str, int],
        links: int,
        requisite: int,
        taken: type[tuple[Any, ...]],
        unindexable: Enum,
        out_of_scope: Enum,
    ) -> None: ...
    def evaluate(
        self,
        links: Iterable[Link],
        check_link: Callable[[str], Any],
        check_requisite: Callable[[str], Any],
        *,
        obeys: bool,
        too_deep: bool,
    ) -> list[tuple[int, str, int, Any, bool]]: ...
    def choose(
        self,
        links: Iterable[Link],
        check_link: Callable[[str], Any],
        check_requisite: Callable[[str], Any],
        *,
        obeys: bool,
        too_deep: bool,
        also: int,
    ) -> tuple[list[tuple[str, int, str, int, str, int]], int, int, dict[str, int]]: ...

def columns(
    links: Sequence[tuple[str, int, str, int, str, int]], make: Callable[[str, bytes, list[str], bytes, bytes], _T]
) -> list[_T]: ...
