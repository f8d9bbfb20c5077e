"""The frontier owns its SQL: other packages call verbs of `teia/frontier`, and never use the connection to a cell.

SQL over the views `fetches`, `pages` and `hosts`, which DuckDB shows to users, is not meant.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from .tree import modules, walk

TABLES = (
    "urls", "queue", "visits", "meta", "robots", "outbox", "histories", "host_histories", "shorter_paths",
    "probes", "aliases", "trails", "patterns", "text_hashes", "spellings", "site_statements", "statement_sources",
    "signal_trust", "outlinks",
)  # fmt: skip
"""The tables of `frontier.sqlite` whose names no other database of ours has."""

OTHER_DATABASES = {"self", "_inbox", "_store", "hubs", "inbox", "store"}
"""Names of what has a `db` of its own outside the frontier: the inbox of signals, subscriptions and hubs."""

_SQL = re.compile(rf"\b(?:FROM|JOIN|INTO|UPDATE)\s+({'|'.join(TABLES)})\b")


def sql_of_cells(tree: ast.AST) -> Iterator[str]:
    """Yield the tables that the texts of a module name in SQL, and every use of a cell's connection."""
    for node in walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _SQL.findall(node.value)
        if isinstance(node, ast.Attribute) and node.attr == "db" and _last_name(node.value) not in OTHER_DATABASES:
            yield ast.unparse(node)
        # `rows` and `row` of a cell take SQL; those of other classes take none.
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {"rows", "row"}:
            yield from (ast.unparse(node.func) for each in node.args[:1] if _is_text(each))


def _last_name(node: ast.expr) -> str:
    """Return `inbox` of `self.inbox`; empty where an expression does not end in a name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr | ast.Constant) or _last_name(node).lower().endswith("sql")


def test_only_the_frontier_has_sql_on_its_tables() -> None:
    found = {module.path: sorted(set(sql_of_cells(module.tree))) for module in modules()}
    assert {path: sql for path, sql in found.items() if sql and not path.startswith("teia/frontier/")} == {}


def test_sql_on_a_cell_would_be_seen() -> None:
    source = '''
sql = f"""
    SELECT h.name FROM urls AS u
    JOIN hosts AS h USING (host_id) WHERE {condition}
"""
lookup.cells[0].db.execute(sql)
reader.db.execute("SELECT count(*) FROM pages")
self._frontier.db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", row)
cell.rows("SELECT name FROM hosts")
frontier.row(_SQL, 1)
log.query("SELECT count(*) FROM pages")
inbox.db.execute("SELECT 1")
view.rows(cell)
'''
    found = ["cell.rows", "frontier.row", "lookup.cells[0].db", "meta", "reader.db", "self._frontier.db", "urls"]
    assert sorted(sql_of_cells(ast.parse(source))) == found
