"""The extension points, by the example packages of examples/extensions/."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from teia.cli.signals import follow
from teia.clock import VirtualClock
from teia.config.extensions import GROUPS, extension_names, load_extension
from teia.config.load import load, to_toml
from teia.config.sections import Config
from teia.crawler.signals_in.follow_source import follow_source
from teia.errors import ConfigError, TeiaError, UsageError
from teia.frontier.queue.order import order_named, sequence_of
from teia.frontier.rules.scope import compile_scope
from teia.parse.document import Document, ParseOptions
from teia.parse.headers import parse_head
from teia.parse.processors import with_user_processors
from teia.refresh.model import RefreshWorld
from teia.refresh.policies import find_policy
from teia.signals.announce import open_inbox
from teia.store.root import open_root
from teia.views.reports.catalogue import find_report

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "extensions"
PACKAGES = sorted(path.parent for path in EXAMPLES.glob("*/pyproject.toml"))


def install(package: Path, folder: Path, entry_points: dict[str, dict[str, str]] | None = None) -> None:
    """Write what pip writes for a package of modules: the modules, and the metadata with the entry points."""
    project = tomllib.loads((package / "pyproject.toml").read_text("utf-8"))["project"]
    for module in package.glob("*.py"):
        (folder / module.name).write_bytes(module.read_bytes())
    metadata = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    groups = project["entry-points"] if entry_points is None else entry_points
    lines = [
        line for group, names in groups.items() for line in (f"[{group}]", *(f"{a} = {b}" for a, b in names.items()))
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n", "utf-8")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path with all example packages in it, for child processes too."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    for package in PACKAGES:
        install(package, folder)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))
    yield folder
    for name in [name for name in sys.modules if name.startswith("teia_")]:
        del sys.modules[name]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_an_example_is_short_and_fills_one_extension_point(package: Path) -> None:
    modules = list(package.glob("*.py"))
    assert len(modules) == 1
    assert sum(len(path.read_text("utf-8").splitlines()) for path in package.iterdir() if path.is_file()) < 80


def test_every_extension_point_has_an_example(installed: Path) -> None:
    assert {group: len(extension_names(group)) for group in GROUPS} == dict.fromkeys(GROUPS, 1)


@pytest.mark.usefixtures("installed")
def test_a_processor_reads_its_media_type() -> None:
    ((name, read), (plain, _)) = with_user_processors(["text/markdown=markdown"]).for_type("text/markdown")
    assert plain == "text", "its text is that of the page, because it comes first"
    head = parse_head(b"HTTP/1.1 200 OK\r\nContent-Type: text/markdown; charset=utf-8\r\n\r\n")
    text = b"# Coffee\n\nSee [tea](../tea.md) and [mail](mailto:a@b.test).\n"
    found = read(Document("https://a.test/drinks/coffee.md", head, text, ParseOptions()))
    assert name == "markdown"
    assert (found.title, [link.url for link in found.links]) == ("Coffee", ["https://a.test/tea.md"])
    assert "See tea and mail." in found.text


@pytest.mark.usefixtures("installed")
def test_an_order_ranks_by_depth_and_links_and_keeps_the_turn() -> None:
    assert load(None, {}, {"collection.order": "least-linked"}).config.collection.order == "least-linked"
    order = order_named("least-linked")
    rare, common = order.rank(9, 0, 700, 100), order.rank(1, 5, 3, 100)
    assert rare < common
    assert [sequence_of(each) for each in (rare, common)] == [700, 3]
    assert order.rank(2, 0, 8, 100) < order.rank(2, 0, 9, 100)
    # Whatever a rule returns, the number of the URL can be read back.
    assert sequence_of(order.rank(0, 1 << 60, 5, 100)) == 5


@pytest.mark.usefixtures("installed")
def test_a_policy_plans_between_uniform_and_proportional() -> None:
    policy = find_policy("square-root")
    world = RefreshWorld.build([0] * 20, np.geomspace(1e-6, 1e-2, 20), horizon_s=86_400.0, politeness_s=60.0)
    assert policy.name == load(None, {}, {"refresh.policy": "square-root"}).config.refresh.policy
    visits = 1 / policy.plan(world).interval_s
    assert np.all(np.diff(visits[np.argsort(world.rate)]) >= -1e-12)
    assert np.all(np.isfinite(policy.demand(world, world.weight)))


@pytest.mark.usefixtures("installed")
def test_a_scope_rule_excludes_urls() -> None:
    scope = compile_scope(["suffix:.test"], ["py:session-url"])
    assert scope.allows("https://a.test/x?page=2")
    assert not scope.allows("https://a.test/x;jsessionid=77")
    assert not scope.allows("https://a.test/x?a=1&PHPSESSID=77")


def test_a_signal_source_fills_the_inbox(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "www" / "a b").mkdir(parents=True)
    (tmp_path / "www" / "a b" / "index.html").touch()
    os.utime(tmp_path / "www" / "a b" / "index.html")
    (tmp_path / "www" / "old.html").touch()
    os.utime(tmp_path / "www" / "old.html", (0, 0))
    source = load_extension("teia.signal_sources", "changed-files")
    clock = VirtualClock(2e9)
    counts = follow_source(tmp_path / "signals.sqlite", [*source(tmp_path / "www", "https://a.test/"), "no url"], clock)
    assert counts == {"received": 2, "malformed": 1}
    with closing(open_inbox(tmp_path / "signals.sqlite")) as inbox:
        due = inbox.due("source", 2e9, 10)
        assert {each.url for each in due} == {"https://a.test/a%20b/index.html", "https://a.test/a%20b/"}
        assert all(each.reported_s < 2e9 for each in due)
        assert inbox.counts() == {"source": {"received": 2, "malformed": 1}}


def test_the_command_follows_a_source_and_names_those_that_exist(
    installed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    open_root(tmp_path / "data", create=True).create_collection("main", to_toml(Config()), 1)
    (tmp_path / "www").mkdir()
    (tmp_path / "www" / "index.html").touch()
    words = [str(tmp_path / "www"), "https://a.test/"]
    follow("changed-files", tmp_path / "data", words, None, as_json=True)
    assert json.loads(capsys.readouterr().out) == {
        "collection": "main", "source": "changed-files", "received": 2, "malformed": 0
    }  # fmt: skip
    with pytest.raises(UsageError, match="'changed-file'; available: changed-files"):
        follow("changed-file", tmp_path / "data", words)


def test_names_that_no_package_offers_are_refused_with_those_that_are(installed: Path) -> None:
    with pytest.raises(ConfigError, match=r"must be one of breadth.*least-linked"):
        load(None, {}, {"collection.order": "most-linked"})
    with pytest.raises(ConfigError, match=r"must be one of breadth.*least-linked"):
        order_named("most-linked")
    with pytest.raises(UsageError, match="did you mean square-root"):
        find_policy("squareroot")
    with pytest.raises(UsageError, match=r"outcomes.*suffixes"):
        find_report("suffix")
    with pytest.raises(ConfigError, match=r"parse\.processors"):
        with_user_processors(["text/markdown=asciidoc"])
    with pytest.raises(ConfigError, match="py:nothing"):
        compile_scope(["py:nothing"])


def test_a_package_that_cannot_be_imported_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(PACKAGES[0], tmp_path, {"teia.orders": {"broken": "no_such_module:rule"}})
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(TeiaError, match=r"'broken' of teia.orders \(no_such_module:rule\) cannot be imported"):
        order_named("broken")


def test_a_built_in_name_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(PACKAGES[0], tmp_path, {"teia.orders": {"breadth": "no_such_module:rule"}})
    monkeypatch.syspath_prepend(tmp_path)
    assert order_named("breadth").rank(1, 0, 1, 0) == 1 << 40 | 1
