"""One inbox: a kind of request is a struct and a handler, and no other module reads or writes the file's tables."""

from __future__ import annotations

import re

from teia.collections.control_file import KINDS, RequestBody
from teia.collections.poll_requests import HANDLERS

from .tree import ROOT

OWNERS = {
    "requests": "control_file",
    "runs": "control_file",
    "series": "control_file",
    "dismissed": "control_file",
    "standing_commands": "commands",
    "scheduled_runs": "scheduled_runs",
}
SQL = re.compile(rf"\b(?:FROM|INTO|UPDATE) ({'|'.join(OWNERS)})\b")


def test_every_kind_of_request_has_a_handler() -> None:
    assert set(HANDLERS) == set(KINDS.values()) == set(RequestBody.__subclasses__())


def test_each_table_of_the_control_file_has_one_owner() -> None:
    found = {
        (table, path.stem)
        for path in sorted((ROOT / "teia").rglob("*.py"))
        for table in SQL.findall(path.read_text(encoding="utf-8"))
        # Its migration names all tables.
        if path.stem != "control_file" or OWNERS[table] == "control_file"
    }
    assert found == set(OWNERS.items())


def test_one_module_polls_requests() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "teia").rglob("*.py"))}
    found = {path.stem for path, source in sources.items() if ".all_pending(" in source}
    assert found == {"control_file", "poll_requests"}
    opened = {path.stem for path, source in sources.items() if 'control.sqlite"' in source}
    assert opened == {"root"}
