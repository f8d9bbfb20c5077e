"""Which collection a command means, and where its settings come from."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.collections.settings import (
    FIXED,
    LIVE,
    SHARED,
    apply_edits,
    choose,
    configure,
    configure_all,
    normal_form,
    parse_edit,
    saved,
)
from teia.config.sections import FLAGS, CollectionSettings, Config, ScopeSettings
from teia.config.tree import keys_of
from teia.errors import ConfigError, UsageError
from teia.records import Edit, Operator
from teia.store.root import open_root
from teia.urls import from_user

SEED = {"collection.seeds": ["http://a.test/"]}


def test_new_collection_keeps_the_settings_it_was_made_with(tmp_path: Path) -> None:
    root = open_root(tmp_path / "d", create=True)
    made = configure(root, None, None, {}, {**SEED, "courtesy.delay_s": 2.5, "collection.cells": 3})
    assert made.config.collection.name == "main"
    assert saved(root, "main").config == made.config
    assert len(root.collection("main").cells()) == 3


def test_flags_of_a_later_run_hold_for_that_run_alone(tmp_path: Path) -> None:
    root = open_root(tmp_path / "d", create=True)
    configure(root, "n", None, {}, SEED)
    assert configure(root, "n", None, {}, {"courtesy.delay_s": 9.0}).config.courtesy.delay_s == 9.0
    assert saved(root, "n").config.courtesy.delay_s == 5.0


def test_collection_without_a_seed_is_refused_and_not_made(tmp_path: Path) -> None:
    root = open_root(tmp_path / "d", create=True)
    with pytest.raises(UsageError, match="needs at least one SEED"):
        configure(root, None, None, {}, {})
    assert root.collections() == ()


def test_file_for_a_collection_that_exists_is_refused(tmp_path: Path) -> None:
    root = open_root(tmp_path / "d", create=True)
    file = tmp_path / "c.toml"
    file.write_text('[collection]\nname = "x"\nseeds = ["http://a.test/"]\n')
    assert configure(root, None, file, {}, {}).config.collection.name == "x"
    with pytest.raises(UsageError, match="already exists with its own settings"):
        configure(root, None, file, {}, {})


def test_several_collections_run_together_unless_one_is_named(tmp_path: Path) -> None:
    root = open_root(tmp_path / "d", create=True)
    for name in ("one", "two"):
        configure(root, name, None, {}, SEED)
    assert [each.collection.name for each in configure_all(root, None, None, {}, {})] == ["one", "two"]
    assert [each.collection.name for each in configure_all(root, "two", None, {}, {})] == ["two"]
    with pytest.raises(UsageError, match="contains one, two; choose one with --collection"):
        choose(root, None)
    with pytest.raises(UsageError, match="there is no collection 'three'"):
        choose(root, "three")


CONFIG = Config(CollectionSettings(seeds=("http://a.test/",)), scope=ScopeSettings(exclude=("domain:x.test",)))


def after(*texts: str, config: Config = CONFIG) -> Config:
    return apply_edits(config, [parse_edit(text) for text in texts])


# ---- as people write them -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "edit"),
    [
        ("courtesy.delay_s=2", Edit("courtesy.delay_s", Operator.SET, 2.0)),
        ("delay=2", Edit("courtesy.delay_s", Operator.SET, 2.0)),
        ("max-pages = 1000", Edit("limits.pages", Operator.SET, 1000)),
        ("requisites=yes", Edit("archive.requisites", Operator.SET, True)),
        ("scope.exclude=a:1,b:2", Edit("scope.exclude", Operator.SET, ["a:1", "b:2"])),
        ('scope.exclude=["regex:a{1,2}"]', Edit("scope.exclude", Operator.SET, ["regex:a{1,2}"])),
        ("scope.exclude=", Edit("scope.exclude", Operator.SET, [])),
        ("exclude+=regex:a{1,2}", Edit("scope.exclude", Operator.ADD, "regex:a{1,2}")),
        ("exclude-=query:yes", Edit("scope.exclude", Operator.REMOVE, "query:yes")),
    ],
)
def test_an_edit_is_read(text: str, edit: Edit) -> None:
    assert parse_edit(text) == edit


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("delay", "must be KEY=VALUE, KEY\\+=ITEM or KEY-=ITEM"),
        ("dely=3", "unknown setting 'dely'; did you mean 'delay'"),
        ("courtesy.dely_s=3", r"did you mean 'courtesy\.delay_s'"),
        ("seeds+=x", r"did you mean 'collection\.seeds'"),
        ("exclude+=", "value missing after"),
        ("scope.exclude=[a", "not a list"),
    ],
)
def test_nonsense_is_one_line_that_says_what_is_meant(text: str, message: str) -> None:
    with pytest.raises((UsageError, ConfigError), match=message) as error:
        parse_edit(text)
    assert "\n" not in str(error.value)


# ---- what they do ---------------------------------------------------------------------------------------------------


def test_values_and_lists_are_changed() -> None:
    config = after("delay=2", "exclude+=host:y.test", "exclude-=domain:X.test.")
    assert config.courtesy.delay_s == 2
    assert config.scope.exclude == ("host:y.test",)


def test_the_first_scope_rule_adds_to_what_an_empty_list_stood_for() -> None:
    """`--scope` was never given: the hosts of the seeds belonged to it, and still do."""
    assert after("scope+=domain:b.test").scope.include == ("host:a.test", "domain:b.test")


def test_many_edits_of_a_list_parse_each_of_its_items_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crawl that runs makes them on its loop, and a collection may have ten thousand seeds."""
    parsed: list[str] = []

    def counted(text: str) -> str | None:
        parsed.append(text)
        return from_user(text)

    monkeypatch.setattr("teia.collections.settings.from_user", counted)
    config = Config(CollectionSettings(seeds=tuple(f"http://a.test/{n}" for n in range(300))))
    given = [f"http://a.test/{n}" for n in range(200, 400)]
    grown = apply_edits(config, [Edit("collection.seeds", Operator.ADD, url) for url in given])
    assert len(parsed) == 500
    assert grown.collection.seeds == tuple(f"http://a.test/{n}" for n in range(400))
    shrunk = apply_edits(grown, [Edit("collection.seeds", Operator.REMOVE, url) for url in given])
    assert len(parsed) == 1_100
    assert shrunk.collection.seeds == config.collection.seeds[:200]


@given(st.lists(st.tuples(st.sampled_from(("exclude", "collection.seeds")), st.sampled_from(("+=", "-=")),
                          st.sampled_from(("a.test", "host:b.test", "host:B.test.", "http://A.test/")))))  # fmt: skip
def test_edits_made_together_are_those_made_one_by_one(parts: list[tuple[str, str, str]]) -> None:
    texts, config = ["".join(each) for each in parts], CONFIG
    for text in texts:
        config = after(text, config=config)
    assert after(*texts) == config


def test_an_item_that_is_no_text_is_refused() -> None:
    for item in (["x"], {"x": 1}, 7):
        with pytest.raises(ConfigError, match=r"scope\.exclude"):
            apply_edits(CONFIG, [Edit("scope.exclude", Operator.ADD, item)])


def test_the_same_seed_in_another_spelling_is_the_same() -> None:
    assert after("collection.seeds+=HTTP://A.test").collection.seeds == ("http://a.test/",)
    assert after("collection.seeds-=a.test").collection.seeds == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("delay=-1", r"courtesy\.delay_s = -1\.0: must be at least 0 s"),
        ("delay=soon", r"courtesy\.delay_s = 'soon': must be a number"),
        ("delay+=1", r"courtesy\.delay_s is not a list"),
        ("collection.cells=3", "cannot be changed: it was fixed"),
        ("collection.name=x", "cannot be changed: it was fixed"),
        ("order=best", r"collection\.order = 'best': must be one of"),
    ],
)
def test_a_wrong_value_is_refused_as_in_a_file(text: str, message: str) -> None:
    with pytest.raises((UsageError, ConfigError), match=message):
        after(text)


WORDS = st.sampled_from(["host:a.test", "domain:b.test", "query:yes", "host:A.test", "prefix:http://a.test/x"])
EDITS = st.lists(
    st.builds(Edit, st.just("scope.exclude"), st.sampled_from([Operator.ADD, Operator.REMOVE]), WORDS)
    | st.builds(Edit, st.just("courtesy.delay_s"), st.just(Operator.SET), st.floats(0, 100)),
    max_size=6,
)


@given(EDITS)
def test_a_change_done_twice_is_done_once(edits: list[Edit]) -> None:
    """So the one who asks, the crawler and a restart may all make it, whoever dies in between."""
    once, twice = apply_edits(CONFIG, edits), apply_edits(apply_edits(CONFIG, edits), edits)
    assert once.courtesy == twice.courtesy
    assert rules(once) == rules(twice)


def rules(config: Config) -> set[str]:
    """What is excluded, whatever the order and the spelling."""
    return {normal_form("scope.exclude", rule) for rule in config.scope.exclude}


def test_every_key_named_here_is_a_setting() -> None:
    assert set(FLAGS.values()) | LIVE | SHARED | FIXED <= set(keys_of(Config))
    assert SHARED <= LIVE
    assert not LIVE & FIXED
