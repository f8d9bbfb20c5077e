"""The frontier owns its SQL: other packages call verbs of `teia/frontier`, and never see the connection to a cell.

SQL over the views `fetches`, `pages` and `hosts`, which DuckDB shows to users, is not meant.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from .tree import modules

TABLES = (
    "urls", "queue", "visits", "meta", "robots", "outbox", "histories", "manners", "nearer", "probes", "aliases",
    "trails", "patterns", "texts", "spellings", "said", "speakers", "voices", "outlinks",
)  # fmt: skip
"""The tables of `frontier.sqlite` whose names no other database of ours has."""

_SQL = re.compile(rf"\b(?:FROM|JOIN|INTO|UPDATE)\s+({'|'.join(TABLES)})\b")
_CELLS = {"cell", "frontier", "_cell", "_frontier"}

STILL_TO_DO = {
    "teia/cluster/cells/copies.py",
    "teia/cluster/cells/open_cells.py",
    "teia/cluster/cells/ship_archive.py",
    "teia/cluster/cells/site_homes.py",
    "teia/cluster/cells/snapshots.py",
    "teia/cluster/crawl/commit.py",
    "teia/cluster/crawl/runs.py",
    "teia/cluster/search/fetch_for_index.py",
    "teia/cluster/search/forget_after_split.py",
    "teia/collections/index_state.py",
    "teia/collections/overview.py",
    "teia/collections/preview_change.py",
    "teia/collections/preview_url.py",
    "teia/collections/stored.py",
    "teia/crawler/budgets.py",
    "teia/crawler/fetch_rows.py",
    "teia/crawler/keep_fresh/keep_fresh.py",
    "teia/crawler/lookup.py",
    "teia/crawler/open_cell.py",
    "teia/crawler/signals_in/announcements.py",
    "teia/crawler/signals_in/indexnow.py",
    "teia/crawler/signals_in/site_hints.py",
    "teia/indexer/after_split.py",
    "teia/indexer/indexer.py",
    "teia/indexer/rebuild.py",
    "teia/lab/reproduce/crawled.py",
    "teia/lab/whatif/backtest.py",
    "teia/lab/whatif/past.py",
    "teia/notify/notices.py",
    "teia/transfer/import_data.py",
    "teia/transfer/import_lists.py",
    "teia/transfer/import_warc.py",
    "teia/transfer/links_audit.py",
    "teia/transfer/read_all.py",
    "teia/transfer/repair_archive.py",
    "teia/views/host.py",
    "teia/views/hosts.py",
    "teia/views/page.py",
    "teia/views/reports/coverage.py",
    "teia/views/reports/errors.py",
    "teia/views/reports/hosts.py",
    "teia/views/reports/links.py",
    "teia/views/reports/outcomes.py",
    "teia/views/reports/source.py",
    "teia/views/reports/traps.py",
    "teia/views/sql_tables.py",
    "teia/views/why_waiting.py",
    "teia/web/pages/finding/search.py",
}
"""Modules that still have such SQL. The list only gets shorter."""


def sql_of_cells(tree: ast.AST) -> Iterator[str]:
    """Yield the tables that the texts of a module name in SQL, and every use of a cell's connection."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _SQL.findall(node.value)
        if isinstance(node, ast.Attribute) and node.attr == "db" and _names_cell(node.value):
            yield f"{ast.unparse(node)}"


def _names_cell(node: ast.expr) -> bool:
    if isinstance(node, ast.Subscript):
        return True
    return (node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")) in _CELLS


def test_only_the_frontier_has_sql_on_its_tables() -> None:
    found = {module.path: sorted(set(sql_of_cells(module.tree))) for module in modules()}
    outside = {path: sql for path, sql in found.items() if sql and not path.startswith("teia/frontier/")}
    assert {path: sql for path, sql in outside.items() if path not in STILL_TO_DO} == {}
    assert outside.keys() >= STILL_TO_DO, "these are done: take them off the list"


def test_sql_on_a_cell_would_be_seen() -> None:
    source = '''
sql = f"""
    SELECT h.name FROM urls AS u
    JOIN hosts AS h USING (host_id) WHERE {condition}
"""
lookup.cells[0].db.execute(sql)
self._frontier.db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", row)
log.query("SELECT count(*) FROM pages")
inbox.db.execute("SELECT 1")
'''
    assert sorted(sql_of_cells(ast.parse(source))) == ["lookup.cells[0].db", "meta", "self._frontier.db", "urls"]
