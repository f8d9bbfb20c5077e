"""Who may import whom.

    lib  <-  urls records clock errors config metrics  <-  stages  <-  crawl  <-  cluster  <-  web, lab, cli

An arrow may be skipped, never reversed. An *area* is a folder or a module directly under teia/.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from .tree import Module, modules

VOCABULARY = {"urls", "records", "clock", "errors", "durable", "settings", "clustersettings", "config", "metrics"}
STAGES = {"seeds", "frontier", "fetch", "parse", "store", "graph", "index", "search", "refresh", "signals"}
BELOW_STAGES = {"lib"} | VOCABULARY
BELOW_CRAWL = BELOW_STAGES | STAGES
BELOW_CLUSTER = BELOW_CRAWL | {"crawl"}
BELOW_TOP = BELOW_CLUSTER | {"cluster", "teia"}

MAY_IMPORT: dict[str, set[str]] = (
    {"lib": set()}
    | {area: {"lib", "errors"} for area in VOCABULARY}
    | {"clustersettings": {"settings"}}
    | {"config": {"lib", "errors", "settings", "clustersettings", "urls"}}  # rules and slots of URLs are choices
    | dict.fromkeys(STAGES, BELOW_STAGES)
    | {"search": BELOW_STAGES | {"index"}}  # search reads what index writes
    | {"crawl": BELOW_CRAWL, "cluster": BELOW_CLUSTER, "teia": BELOW_CLUSTER}
    | {"web": BELOW_TOP, "lab": BELOW_TOP, "cli": BELOW_TOP | {"web", "lab"}, "__main__": {"cli"}}
)
LIB_MAY_USE = sys.stdlib_module_names | {"numpy", "xxhash"}
NAMES_THAT_SAY_NOTHING = {"utils", "util", "common", "helpers", "helper", "misc"}


def area_of(name: str) -> str:
    """`teia.fetch.guard` is of `fetch`; `teia` itself, where the public names are, is of `teia`."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else "teia"


def imported_by(module: Module) -> Iterator[str]:
    """Every dotted name a module imports, wherever in it the import stands."""
    package = module.name.split(".")
    if not module.path.endswith("__init__.py"):
        package = package[:-1]
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            if source == "teia":
                yield from (_from_teia(alias.name) for alias in node.names if alias.name != "__version__")
            else:
                yield source


def _from_teia(name: str) -> str:
    """`from teia import lab` imports the folder, `from teia import crawl_once` a public name of the package itself."""
    return f"teia.{name}" if name in MAY_IMPORT else "teia"


def test_every_area_has_its_place() -> None:
    strangers = sorted({area_of(module.name) for module in modules()} - set(MAY_IMPORT))
    assert not strangers, f"say in MAY_IMPORT what these may import: {strangers}"


def test_no_arrow_is_reversed() -> None:
    wrong = [
        f"{module.path} imports {name}"
        for module in modules()
        for name in imported_by(module)
        if name.split(".")[0] == "teia"
        and area_of(name) != area_of(module.name)
        and area_of(name) not in MAY_IMPORT[area_of(module.name)]
    ]
    assert not wrong, "\n".join(wrong)


def test_lib_needs_nothing_but_the_standard_library_numpy_and_xxhash() -> None:
    wrong = [
        f"{module.path} imports {name}"
        for module in modules("teia/lib")
        for name in imported_by(module)
        if name.split(".")[0] not in LIB_MAY_USE | {"teia"}
    ]
    assert not wrong, "\n".join(wrong)


def test_only_lab_cli_and_tests_import_the_lab() -> None:
    assert {area for area, below in MAY_IMPORT.items() if "lab" in below} == {"cli"}


def test_only_python_m_teia_imports_the_command_line() -> None:
    assert {area for area, below in MAY_IMPORT.items() if "cli" in below} == {"__main__"}


def test_stages_meet_only_in_crawl() -> None:
    meetings = {(stage, other) for stage in STAGES for other in MAY_IMPORT[stage] & STAGES}
    assert meetings == {("search", "index")}


def test_names_say_something() -> None:
    empty = [m.path for m in modules() if NAMES_THAT_SAY_NOTHING & set(m.name.split("."))]
    assert not empty, f"name these after what they hold: {empty}"


def test_a_reversed_arrow_would_be_seen() -> None:
    source = "from __future__ import annotations\nif True:\n    from ..lab import world\nimport teia.cli.main\n"
    module = Module("teia/fetch/guard.py", "teia.fetch.guard", ast.parse(source), 4)
    assert set(imported_by(module)) == {"__future__", "teia.lab", "teia.cli.main"}
