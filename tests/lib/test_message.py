"""Messages: English text, code and values; they survive copies and JSON."""

from __future__ import annotations

import json
from copy import copy, deepcopy
from dataclasses import asdict, dataclass

import pytest

from teia.errors import ConfigError, WrongValue
from teia.lib.message import Message, begins_with_name, decoded, encoded, formatted, joined, message_of

INNER = Message("must be at most {n:,}", n=1204)
OUTER = Message("{key}: {why}", key="limits.pages", why=INNER)


@dataclass
class Record:
    why: str


def test_a_name_at_the_beginning_is_told_from_a_sentence() -> None:
    named = Message("{name} was created", name="docs")
    for message, is_named in (
        (named, True),
        (Message("{field}: {why}", field="main", why=INNER), True),
        (joined(" ", [named, INNER]), True),
        (joined(" ", [INNER, named]), False),
        (Message("{n} runs are queued", n=2), False),
        (INNER, False),
        ("docs was created", False),
    ):
        assert begins_with_name(message) is is_named, message


def test_a_message_is_its_english_text() -> None:
    assert OUTER == "limits.pages: must be at most 1,204"
    assert json.dumps({"why": OUTER}) == '{"why": "limits.pages: must be at most 1,204"}'
    assert (OUTER.code, OUTER.values) == ("{key}: {why}", {"key": "limits.pages", "why": INNER})


@pytest.mark.parametrize(
    "copied",
    [deepcopy(OUTER), asdict(Record(OUTER))["why"], decoded(encoded(OUTER))],
)
def test_a_copy_keeps_code_and_values(copied: Message) -> None:
    assert (copied, copied.code, copied.values) == (OUTER, OUTER.code, OUTER.values)
    assert copied.values["why"].code == INNER.code


def test_it_is_translated_with_the_messages_and_numbers_in_it() -> None:
    words = {"{key}: {why}": "{why} ({key})", INNER.code: "no máximo {n:,}"}
    said = OUTER.translated(lambda code: words.get(code, code), lambda number: number.replace(",", "."))
    assert said == "no máximo 1.204 (limits.pages)"
    both = joined("; ", (INNER, "x", formatted(2_000_000, ",")))
    said = both.translated(lambda code: words.get(code, code), lambda number: number.replace(",", "."))
    assert said == "no máximo 1.204; x; 2.000.000"


def test_what_has_no_values_is_stored_as_its_text() -> None:
    assert encoded(Message("paused by an operator")) == encoded("paused by an operator") == "paused by an operator"
    assert encoded(INNER) == '{"code": "must be at most {n:,}", "values": {"n": 1204}}'


HOSTILE = ("{x.translated.__globals__}", "{x[0]}", "{x:999999999}", "{x:{x}}")


@pytest.mark.parametrize("code", HOSTILE)
def test_a_stored_template_reaches_into_nothing(code: str) -> None:
    text = json.dumps({"code": code, "values": {"x": {"code": "a", "values": {}}}})
    assert decoded(text) == text


@pytest.mark.parametrize("text", ["", "a {b} c", '{"code": 1}', '{"code": "{x}", "values": {}}', '{"code":'])
def test_a_text_that_is_no_message_is_read_as_it_is(text: str) -> None:
    assert decoded(text) == text


def test_an_exception_keeps_its_message() -> None:
    error = WrongValue("limits.pages", 5000, INNER)
    assert str(error) == "limits.pages = 5000: must be at most 1,204"
    assert isinstance(error.message, Message)
    assert Message("not saved: {why}", why=error).values["why"].code == "{key} = {value}: {why}"
    assert message_of(ConfigError("plain")) == "plain"
    assert str(WrongValue("a.b", "\udcff", "must be valid UTF-8")) == "a.b = '\\udcff': must be valid UTF-8"


@pytest.mark.parametrize(
    "text",
    [
        '{"code": "{a:99999}", "values": {"a": 1}}',
        '{"code": "{a:c}", "values": {"a": 123456789}}',
        '{"code": "{a.__class__}", "values": {"a": 1}}',
        '{"code":' + "[" * 100_000,
    ],
)
def test_a_stored_text_that_is_no_message_of_ours_is_shown_as_it_is(text: str) -> None:
    assert decoded(text) == text


def test_a_text_that_looks_like_a_stored_message_stays_a_text() -> None:
    text = '{"code": "{n} pages", "values": {"n": 3}}'
    assert decoded(encoded(text)) == text


def test_a_shallow_copy_of_a_message_with_braces_is_the_same() -> None:
    message = copy(Message("not {what}", what="{this}"))
    assert (message, message.code, message.values) == ("not {this}", "not {what}", {"what": "{this}"})
