"""Where settings come from, and what is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from teia.config.load import EffectiveConfig, load, read_toml
from teia.config.sections import Config
from teia.config.tree import ADMIN, HERE, flatten, keys_of, read_tree
from teia.errors import ConfigError


def from_file(folder: Path, text: str | bytes) -> EffectiveConfig:
    path = folder / "teia.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load(path)


# ---- order ----------------------------------------------------------------------------------------------------------


def test_defaults_alone_are_a_configuration() -> None:
    effective = load()
    assert effective.config == Config()
    assert set(effective.origins.values()) == {"default"}
    assert set(effective.origins) == set(keys_of(Config))


def test_every_default_is_itself_allowed() -> None:
    flat = flatten(dataclasses.asdict(Config()))
    assert read_tree(Config, flat) == Config()


def test_every_setting_has_a_description() -> None:
    assert all(each.metadata["description"] for each in keys_of(Config).values())


def test_file_then_environment_then_flags(tmp_path: Path) -> None:
    path = tmp_path / "teia.toml"
    path.write_text("[courtesy]\ndelay_s = 1\nper_host = 2\nmax_hosts = 3\n")
    environ = {"TEIA_COURTESY_PER_HOST": "20", "TEIA_COURTESY_MAX_HOSTS": "30", "HOME": "/"}
    effective = load(path, environ, {"courtesy.max_hosts": 300, "courtesy.delay_s": None})
    courtesy = effective.config.courtesy
    assert (courtesy.delay_s, courtesy.per_host, courtesy.max_hosts) == (1.0, 20, 300)
    origins = effective.origins
    assert origins["courtesy.delay_s"] == str(path)
    assert origins["courtesy.per_host"] == "TEIA_COURTESY_PER_HOST"
    assert origins["courtesy.max_hosts"] == "flag"
    assert origins["courtesy.robots"] == "default"


def test_a_whole_number_does_for_a_float(tmp_path: Path) -> None:
    delay_s = from_file(tmp_path, "courtesy.delay_s = 2").config.courtesy.delay_s
    assert (delay_s, type(delay_s)) == (2.0, float)


@pytest.mark.parametrize(
    ("variable", "text", "key", "value"),
    [
        ("TEIA_COURTESY_ROBOTS", "no", "courtesy.robots", False),
        ("TEIA_COURTESY_ROBOTS", " TRUE ", "courtesy.robots", True),
        ("TEIA_COURTESY_DELAY_S", "0.5", "courtesy.delay_s", 0.5),
        ("TEIA_LIMITS_PAGES", "12", "limits.pages", 12),
        ("TEIA_COLLECTION_NAME", "br", "collection.name", "br"),
        ("TEIA_COLLECTION_SEEDS", "http://a/, http://b/,", "collection.seeds", ("http://a/", "http://b/")),
        ("TEIA_COLLECTION_SEEDS", "", "collection.seeds", ()),
        ("TEIA_SCOPE_URL_RULES", "escapes,slashes", "scope.url_rules", ("escapes", "slashes")),
    ],
)
def test_environment_text_becomes_the_type_of_its_setting(variable: str, text: str, key: str, value: Any) -> None:
    section, _, name = key.partition(".")
    effective = load(environ={variable: text})
    assert getattr(getattr(effective.config, section), name) == value


def test_variables_of_scripts_and_tests_are_no_settings() -> None:
    assert load(environ={"TEIA_CONFORMANCE": "/x", "PATH": "/bin"}).config == Config()


# ---- unknown keys ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("[courtesy]\ndelay = 1", "courtesy.delay_s"),
        ("[curtesy]\ndelay_s = 1", "courtesy.delay_s"),
        ("[fetch]\nrobots_max_age_s = 1", "courtesy.robots_max_age_s"),
        ("courtesy.delay_s.x = 1", "courtesy.delay_s"),
        ("[[courtesy]]\ndelay_s = 1", "courtesy"),
    ],
)
def test_an_unknown_key_in_a_file_names_the_nearest(tmp_path: Path, text: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown setting .*did you mean '{nearest}"):
        from_file(tmp_path, text)


def test_an_unknown_variable_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"TEIA_COURTESY_DELAY in the environment.*'TEIA_COURTESY_DELAY_S'"):
        load(environ={"TEIA_COURTESY_DELAY": "1"})


def test_an_unknown_flag_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"'courtesy.delays'; did you mean 'courtesy.delay_s'"):
        load(flags={"courtesy.delays": 1})


def test_a_key_like_no_other_says_where_they_are_listed() -> None:
    with pytest.raises(ConfigError, match="`teia config` lists them all"):
        load(flags={"qqqq": 1})


# ---- wrong values ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("courtesy.delay_s", "5", "must be a number"),
        ("courtesy.delay_s", True, "must be a number"),
        ("courtesy.delay_s", None, "must be a number"),
        ("courtesy.delay_s", -0.1, "must be at least 0 s"),
        ("courtesy.robots_max_age_s", 1, "must be at least 60 s"),
        ("courtesy.robots", 1, "must be true or false"),
        ("courtesy.robots", "yes", "must be true or false"),
        ("courtesy.user_agent", "my bot", "must look like"),
        ("courtesy.user_agent", "teia\n", "must look like"),
        ("courtesy.user_agent", 7, "must be text"),
        ("collection.name", "../etc", "must look like"),
        ("collection.name", "", "must look like"),
        ("collection.cells", 0, "must be at least 1"),
        ("collection.cells", 1025, "must be at most 1024"),
        ("collection.cells", 2.0, "must be a whole number"),
        ("collection.seeds", "http://x/", "must be a list"),
        ("collection.seeds", ["http://x/", 3], "must be text"),
        ("scope.url_rules", ["escapes", "magic"], "must be one of escapes, "),
        ("limits.redirects", 21, "must be at most 20"),
    ],
)
def test_a_wrong_value_says_key_value_and_what_is_allowed(key: str, value: Any, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_tree(Config, {key: value})
    assert str(caught.value).startswith(f"{key} = ")
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf"), 1e300, 10**400, -(10**400), 2**63])
@pytest.mark.parametrize("key", ["courtesy.delay_s", "limits.pages", "limits.seconds"])
def test_numbers_that_are_no_amount_are_refused(key: str, number: float) -> None:
    """`inf` made a host rest for ever, and a whole number of 400 digits raised OverflowError."""
    with pytest.raises(ConfigError, match=rf"{key} = .*must be"):
        read_tree(Config, {key: number})


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("TEIA_COURTESY_DELAY_S", "soon"),
        ("TEIA_COURTESY_DELAY_S", ""),
        ("TEIA_COURTESY_DELAY_S", "nan"),
        ("TEIA_COURTESY_DELAY_S", "9" * 5_000),
        ("TEIA_COURTESY_ROBOTS", "maybe"),
        ("TEIA_LIMITS_PAGES", "1.5"),
        ("TEIA_LIMITS_PAGES", "9" * 5_000),
        ("TEIA_COLLECTION_NAME", "A B"),
    ],
)
def test_a_wrong_value_in_the_environment_is_refused(variable: str, text: str) -> None:
    with pytest.raises(ConfigError, match="must"):
        load(environ={variable: text})


# ---- files that cannot be read --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "courtesy = ",
        "[courtesy",
        "a = 1\na = 2",
        b"name = '\xff\xfe'",
        b"\x00",
        "x = " + "[" * 100_000,
        "limits.pages = " + "9" * 5_000,
    ],
    ids=["no-value", "no-bracket", "twice", "not-utf8", "nul", "deep", "long-number"],
)
def test_broken_toml_is_one_line_that_names_the_file(tmp_path: Path, text: str | bytes) -> None:
    with pytest.raises(ConfigError) as caught:
        from_file(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'teia.toml'}: not valid TOML")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: file not found"):
        read_toml(tmp_path / "none.toml")


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load(tmp_path)


def test_a_file_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: File name too long"):
        load(tmp_path / ("x" * 300))


def test_an_empty_file_changes_nothing(tmp_path: Path) -> None:
    assert from_file(tmp_path, "").config == Config()


def test_sections_cannot_be_changed_after_reading() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        load().config.courtesy.delay_s = 0  # type: ignore[misc]  # that is the point


OF_THE_PUBLIC_WEB = """
collection.name collection.seeds collection.prefer focus.words scope.include scope.exclude scope.types
courtesy.host_delays courtesy.agreed_delays courtesy.paused courtesy.user_agent courtesy.contact limits.host_budgets
render.always render.never
alerts.email alerts.sender alerts.webhook schedule.start schedule.zone schedule.every schedule.stop_after schedule.until
"""
"""Settings of free text that name nothing of the machine: names of public hosts, words, dates, e-mail addresses. The
rules of a scope may name files and code, and are judged one by one (collections/drafts.py)."""


def test_every_text_setting_says_whether_it_is_of_the_machine() -> None:
    """A new one that names a path, an address or code has `of_machine`; one that does not is listed here."""
    texts = {
        key
        for key, each in keys_of(Config).items()
        if each.type in {"str", "tuple[str, ...]"} and not each.metadata["choices"] and not each.metadata["of_machine"]
    }
    assert texts == set(OF_THE_PUBLIC_WEB.split())


def test_what_leads_into_the_machine_is_marked() -> None:
    marked = {
        kind: {k for k, e in keys_of(Config).items() if e.metadata["of_machine"] == kind} for kind in (ADMIN, HERE)
    }
    assert marked[HERE] == {
        "parse.processors", "refresh.weights_file", "focus.examples", "focus.others", "placement.rules",
    }  # fmt: skip
    assert {"fetch.bind", "signals.proxy", "signals.socket", "signals.websub", "cluster.snapshots"} <= marked[ADMIN]
    assert {"fetch.allow_nets", "fetch.resolve", "fetch.dns", "courtesy.cdn_nets"} <= marked[ADMIN]


@pytest.mark.parametrize("text", ["me\r\nX-Evil: 1", "me\n", "me\x00", "me\x7f", "me\x85", "me\u2028x", "é"])
@pytest.mark.parametrize("key", ["courtesy.contact", "courtesy.user_agent"])
def test_what_is_sent_in_a_header_is_one_line_of_ascii(key: str, text: str) -> None:
    assert {name for name, each in keys_of(Config).items() if each.metadata["in_header"]} == {
        "courtesy.contact",
        "courtesy.user_agent",
    }
    with pytest.raises(ConfigError, match=key):
        read_tree(Config, {key: text})
