"""A value is changed; everything a person wrote around it stays."""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teia.config.load import with_values

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
BY_HAND = """\
# ours, since March
[courtesy]
delay_s = 2.0     # agreed with the ministry

[scope]
exclude = [
    "domain:a.test",   # asked us to
    "prefix:http://b.test/[x]/",
]
max_depth = 3
"""


def test_a_value_is_replaced_and_comments_elsewhere_stay() -> None:
    text = with_values(BY_HAND, {"scope.max_depth": "5"})
    assert text == BY_HAND.replace("max_depth = 3", "max_depth = 5")


def test_a_list_over_several_lines_is_replaced_whole() -> None:
    text = with_values(BY_HAND, {"scope.exclude": '["x"]'})
    assert tomllib.loads(text) == {"courtesy": {"delay_s": 2.0}, "scope": {"exclude": ["x"], "max_depth": 3}}
    assert "# agreed with the ministry" in text


def test_a_key_that_is_new_goes_to_the_end_of_its_table() -> None:
    text = with_values(BY_HAND, {"courtesy.robots": "true"})
    assert text.splitlines()[2:5] == ["delay_s = 2.0     # agreed with the ministry", "robots = true", ""]


def test_a_table_that_is_new_goes_to_the_end_of_the_file() -> None:
    assert with_values("", {"limits.pages": "7"}) == "[limits]\npages = 7\n"
    assert with_values(BY_HAND, {"limits.pages": "7"}) == BY_HAND + "\n[limits]\npages = 7\n"


def test_the_comment_beside_a_changed_value_stays() -> None:
    assert "delay_s = 4.0     # agreed with the ministry\n" in with_values(BY_HAND, {"courtesy.delay_s": "4.0"})


@pytest.mark.parametrize(
    "form", ["courtesy.delay_s = {}\n", "courtesy = {{delay_s = {}}}\n", '["courtesy"]\ndelay_s = {}\n']
)
def test_every_form_of_toml_is_edited_as_it_is_written(form: str) -> None:
    assert with_values(form.format(1), {"courtesy.delay_s": "2"}) == form.format(2)


def test_several_values_are_set_at_once() -> None:
    text = with_values(BY_HAND, {"scope.max_depth": "5", "limits.pages": "7", "courtesy.delay_s": "4.0"})
    changed = BY_HAND.replace("max_depth = 3", "max_depth = 5").replace("delay_s = 2.0", "delay_s = 4.0")
    assert text == changed + "\n[limits]\npages = 7\n"


def test_long_lists_are_changed_and_kept_without_parsing_each_item() -> None:
    """tomlkit parsed each of 50,000 items again for each changed key: some seconds a key."""
    rules, seeds = ([f"domain:{kind}-{n}.test" for n in range(50_000)] for kind in "ab")
    text = BY_HAND + f"include = {toml(rules)}\n# ours\nseeds = {toml(seeds)}   \n"
    began = time.thread_time()
    edited = with_values(text, {"scope.max_depth": "5", "scope.seeds": toml(seeds[:-1]), "courtesy.robots": "true"})
    assert time.thread_time() - began < 1  # some 4 ms
    scope = tomllib.loads(BY_HAND)["scope"] | {"max_depth": 5, "include": rules, "seeds": seeds[:-1]}
    assert tomllib.loads(edited) == {"courtesy": {"delay_s": 2.0, "robots": True}, "scope": scope}
    assert "# agreed with the ministry" in edited
    assert "]\n# ours\nseeds = [" in edited


def test_a_long_list_inside_a_text_stays() -> None:
    text = f'[scope]\nnote = """\nexclude = {toml(["x"] * 1_000)}\n"""\n'
    assert with_values(text, {"scope.max_depth": "5"}) == text + "max_depth = 5\n"


@pytest.mark.parametrize("odd", ["courtesy = 1\n", "[[courtesy]]\n", "[courtesy"])
def test_a_text_without_such_a_table_is_refused(odd: str) -> None:
    with pytest.raises(ValueError, match="cannot be set"):
        with_values(odd, {"courtesy.delay_s": "2"})


@given(
    st.dictionaries(
        st.sampled_from(["a", "b", "b-c", "d_e"]),
        st.dictionaries(st.sampled_from(["k", "kk", "k_k"]), st.lists(TEXT) | st.integers(-9, 9), max_size=3),
    ),
    st.sampled_from(["a", "b"]),
    st.sampled_from(["k", "kk"]),
    st.lists(TEXT, max_size=3),
)
def test_only_the_named_value_changes(
    tables: dict[str, dict[str, list[str] | int]], table: str, key: str, value: list[str]
) -> None:
    text = "".join(
        f"[{name}]\n" + "".join(f"{each} = {toml(it)}\n" for each, it in values.items())
        for name, values in tables.items()
    )
    expected = {name: dict(values) for name, values in tables.items()}
    expected.setdefault(table, {})[key] = value
    assert tomllib.loads(with_values(text, {f"{table}.{key}": toml(value)})) == expected


def toml(value: Sequence[str] | int) -> str:
    """JSON, which TOML reads alike but for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
