"""Change of some values in a TOML text, and nothing else: the user's comments and order stay."""

from __future__ import annotations

import re
from collections.abc import Mapping
from uuid import uuid4

_LONG = 2_000
"""Length in characters from which a list is not given to tomlkit, which takes some 15 µs for each item."""

_LONG_LIST = re.compile(rf"^([ \t]*[\w-]+[ \t]*=[ \t]*)(\[.{{{_LONG},}}\])[ \t]*$", re.MULTILINE)
"""A list on one line, as teia writes it."""


def with_values(text: str, values: Mapping[str, str]) -> str:
    """Return the text with `key` of `[table]` set, for each `table.key`; a value is itself TOML.

    Tables and keys are added if need be. ValueError if the text cannot be edited.
    """
    import tomlkit  # takes as long to import as a short command takes in all
    from tomlkit.exceptions import TOMLKitError

    mark = uuid4().hex
    long: list[str] = []

    def stand_in(value: str) -> str:
        long.append(value)
        return f'"{mark}{len(long) - 1}"'

    try:
        document = tomlkit.parse(_LONG_LIST.sub(lambda found: found[1] + stand_in(found[2]), text))
        for name, value in values.items():
            table, _, key = name.rpartition(".")
            # As in a text written by hand, a blank line comes before a new table.
            section = document.setdefault(table, tomlkit.table())
            section[key] = tomlkit.value(stand_in(value) if len(value) >= _LONG else value)
        edited = tomlkit.dumps(document)
    except (TOMLKitError, TypeError) as error:
        raise ValueError(f"{', '.join(values)} cannot be set: {error}") from error
    return re.sub(f'"{mark}([0-9]+)"', lambda found: long[int(found[1])], edited)
