"""Records made from other records: a view shows most fields of a record as they are."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

Kind = TypeVar("Kind")


def copy_fields(kind: type[Kind], source: object, **values: Any) -> Kind:
    """Make a dataclass of a kind from the given values, and from the attributes of `source` for its other fields.

    A field that is in neither gets its default; one without a default raises TypeError.
    """
    names = [each.name for each in fields(kind) if each.name not in values]  # type: ignore[arg-type]  # a dataclass
    return kind(**{name: getattr(source, name) for name in names if hasattr(source, name)}, **values)
