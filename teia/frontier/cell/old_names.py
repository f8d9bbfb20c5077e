"""Translation to and from the names of version 3 of a cell's tables, for the nodes of a cluster that know no others.

Versions 3 and 4 differ in names alone (`RENAMED` of schema.py). A file is migrated when it is opened. What goes from
node to node has the old names while a node of the version before is in the cluster, that is, while the common format of
changes (journal.py) is below `NEW_NAMES_FORMAT`: records of the log, snapshots, and sites that move to another cell.
With that node gone, the module and the formats below are needed for records alone that were written before.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from typing import TypeVar

from teia.frontier.cell.schema import RENAMED, VERSION
from teia.sqlite import Renamed, inverse, rename_tables

NEW_NAMES_FORMAT = 3
"""First format of changes with the names of this version."""

NEW_TABLES = ("renderings", "rendered_pages")
"""Tables that version 3 has not; nothing is written to them while a node of that version is in the cluster."""

OLD_VERSION = VERSION - 1
TO_NEW = RENAMED
TO_OLD = inverse(RENAMED)
_WORD = re.compile(r"\w+")
_Rows = TypeVar("_Rows")


def translate_group(names: Renamed, group: tuple[str, str, Sequence[str], _Rows]) -> tuple[str, str, list[str], _Rows]:
    """Translate the names in the changes of one table (row_changes.py)."""
    table, kind, columns, rows = group
    other, words = names.get(table, (table, {}))
    return other, kind, [words.get(column, column) for column in columns], rows


def translate_tables(names: Renamed, rows: Sequence[tuple[str, _Rows]]) -> list[tuple[str, _Rows]]:
    """Translate the names of tables with whole rows; columns have the same order in both versions."""
    return [(names[table][0] if table in names else table, each) for table, each in rows]


def translate_statement(names: Renamed, sql: str) -> str:
    """Translate a statement of ours: its values are parameters, so every word in it is a name or SQL's own.

    Columns are translated where their table is named: `state` is a column of `urls` too, which keeps its name.
    """
    found = set(_WORD.findall(sql)) & names.keys()
    words = {word: other for table in found for word, other in {table: names[table][0], **names[table][1]}.items()}
    return _WORD.sub(lambda match: words.get(match[0], match[0]), sql)


def rename_to_old(db: sqlite3.Connection) -> None:
    """Give the tables of a file their old names, as the version before reads them; it has no others."""
    for table in NEW_TABLES:
        db.execute(f"DROP TABLE IF EXISTS {table}")
    rename_tables(db, TO_OLD, OLD_VERSION)
