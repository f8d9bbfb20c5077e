"""`teia add`, `block`, `unblock` and `set` while nobody crawls, and what they say to nonsense (A10)."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from teia.collections.settings import saved
from teia.config.load import to_toml
from teia.config.sections import CollectionSettings, Config, CourtesySettings, ScopeSettings
from teia.store.root import open_root
from tests.cli.conftest import Teia

CONFIG = Config(
    CollectionSettings(seeds=("http://a.test/",)),
    scope=ScopeSettings(include=("suffix:.test",)),
    courtesy=CourtesySettings(delay_s=0.2),
)


@pytest.fixture
def at_rest(tmp_path: Path) -> Path:
    open_root(tmp_path / "data", create=True).create_collection("main", "# since March\n" + to_toml(CONFIG), 1)
    return tmp_path / "data"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["set", "delay=soon"], "courtesy.delay_s = 'soon': must be a number"),
        (["set", "delay=-1"], "courtesy.delay_s = -1.0: must be at least 0 s"),
        (["set", "dely=1"], "unknown setting 'dely'; did you mean 'delay'?"),
        (
            ["set", "collection.cells=2"],
            "collection.cells cannot be changed: it was fixed when the collection was created",
        ),
        (["add", "ftp://a.test/"], "seed 'ftp://a.test/': must be an http or https URL, such as https://example.org/"),
        (["add"], "nothing to add; name a URL, host:NAME, domain:NAME, or --scope RULE"),
        (["block", "two words"], "scope rule 'domain:two words': must be a host name, such as example.org"),
        (["block", "@nowhere.txt"], "nowhere.txt': cannot be read: No such file or directory"),
        (["unblock", "a.test"], "domain:a.test is not excluded; excluded: nothing"),
    ],
)
def test_nonsense_is_refused_with_one_line_and_nothing_is_written(
    teia: Teia, at_rest: Path, words: list[str], message: str
) -> None:
    before = (at_rest / "main" / "teia.toml").read_bytes()
    done = teia(*words, "--data", str(at_rest))
    assert done.returncode in {1, 2}
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert (at_rest / "main" / "teia.toml").read_bytes() == before


def test_changes_without_a_crawl_say_so_and_keep_what_a_person_wrote(teia: Teia, at_rest: Path) -> None:
    file = at_rest / "main" / "teia.toml"
    done = teia("set", "delay=7", "--data", str(at_rest))
    assert done.stderr == "main: courtesy.delay_s = 7.0 (was 0.2); saved; no crawl is running\n"
    assert teia("set", "delay=7", "--data", str(at_rest)).stderr == (
        "main: courtesy.delay_s is already 7.0; saved; no crawl is running\n"
    )
    added = teia("add", "domain:b.test", "http://c.test/x", "--data", str(at_rest))
    assert added.stderr.splitlines() == [
        "main: scope.include + domain:b.test; saved; no crawl is running",
        "main: collection.seeds + http://b.test/, + http://c.test/x; saved; no crawl is running",
    ]
    outside = teia("add", "http://c.example/x", "--data", str(at_rest)).stderr.splitlines()
    assert outside[1] == (
        "http://c.example/x: only this page of its host will be fetched: it matches no rule of scope.include"
    )
    assert file.read_text("utf-8").startswith("# since March\n")


def test_the_first_domain_added_by_hand_leaves_the_hosts_of_the_seeds_in_scope(teia: Teia, tmp_path: Path) -> None:
    root = open_root(tmp_path / "data", create=True)
    root.create_collection("main", to_toml(Config(CollectionSettings(seeds=("http://a.test/",)))), 1)
    assert teia("add", "domain:b.test", "--data", "data").returncode == 0
    config = saved(root, "main").config
    assert config.scope.include == ("host:a.test", "domain:b.test")
    assert config.collection.seeds == ("http://a.test/", "http://b.test/")


def test_what_people_block_becomes_rules(teia: Teia, at_rest: Path, tmp_path: Path) -> None:
    (tmp_path / "blocked.txt").write_text("d.test\n0.0.0.0 ads.e.test\n")
    done = teia("block", "b.test", "https://c.test/private/", "@blocked.txt", "--data", str(at_rest), "--json")
    assert done.returncode == 0, done.stderr
    rules = ["domain:b.test", "prefix:https://c.test/private/", f"list:{tmp_path}/blocked.txt"]
    assert json.loads(done.stdout)["settings"] == {"scope.exclude": [[], rules]}
    listed = teia("unblock", "d.test", "--data", str(at_rest))
    assert listed.returncode == 2
    assert "domain:d.test is in" in listed.stderr
    assert teia("unblock", "B.test", "@blocked.txt", "--data", str(at_rest)).returncode == 0
    assert saved(open_root(at_rest), "main").config.scope.exclude == ("prefix:https://c.test/private/",)


def test_two_who_change_at_once_both_succeed(teia: Teia, at_rest: Path) -> None:
    with ThreadPoolExecutor(2) as threads:
        done = list(threads.map(lambda n: teia("block", f"b{n}.test", "--data", str(at_rest)), range(6)))
    assert [each.returncode for each in done] == [0] * 6
    assert set(saved(open_root(at_rest), "main").config.scope.exclude) == {f"domain:b{n}.test" for n in range(6)}


def test_text_that_is_no_utf_8_is_refused(teia: Teia, at_rest: Path) -> None:
    done = teia("set", "courtesy.contact=\udcff", "--data", str(at_rest))
    assert done.returncode == 1
    assert "must be valid UTF-8" in done.stderr
