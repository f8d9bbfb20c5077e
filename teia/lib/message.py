"""Sentences for people, kept as a code with values until the reader's language is known."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from string import Formatter
from typing import Any, Self, cast

_SPEC = re.compile(r",?(\.\d)?[gdf%]?|0?\dd")
_START = '{"code":'


class Message(str):
    """An English sentence that knows the template and the values it was made of.

    The code is the English template, which is the `msgid` of gettext: `Message("must be at most {n:,}", n=most)`.
    Its placeholders are those of `str.format`. Where a text is expected (JSON, a terminal, a log), a message is its
    English text. `str()`, an f-string and the methods of a string return plain text, which is not translated any more:
    to put a message into another one, pass it (or an exception that has one) as a value, or use `joined`.
    """

    __slots__ = ("code", "values")
    code: str
    values: dict[str, Any]

    def __new__(cls, code: str, **values: Any) -> Self:
        values = {name: message_of(each) if isinstance(each, Exception) else each for name, each in values.items()}
        message = super().__new__(cls, code.format(**values))
        message.code, message.values = code, values
        return message

    def translated(self, translate: Callable[[str], str], number: Callable[[str], str]) -> str:
        """Say it in another language: `translate` finds a template, `number` rewrites a number formatted in English."""
        return _Translator(translate, number).format(translate(self.code), **self.values)

    def __deepcopy__(self, memo: object) -> Message:
        return self

    def __reduce__(self) -> tuple[Callable[..., Message], tuple[str, dict[str, Any]]]:
        return _made_again, (self.code, self.values)


def begins_with_name(message: str) -> bool:
    """Tell whether a message begins with a text of somebody, such as a name, whose first letter stays as it is."""
    if not isinstance(message, Message) or not message.code.startswith("{"):
        return False
    first = message.values.get(next(name for _, name, _, _ in Formatter().parse(message.code) if name) or "")
    return begins_with_name(first) if isinstance(first, Message) else isinstance(first, str)


def message_code(code: str) -> str:
    """Mark a code that a message is made of elsewhere, so that the catalogues have it."""
    return code


def joined(separator: str, parts: Iterable[str]) -> Message:
    """Join sentences into one; each is translated on its own."""
    values = {f"part{at}": part for at, part in enumerate(parts)}
    return Message(separator.join(f"{{{name}}}" for name in values), **values)


def formatted(number: float, spec: str) -> Message:
    """Format a number by a specification of `format`; the reader's language decides on its separators."""
    return Message(f"{{number:{spec}}}", number=number)


def message_of(error: Exception) -> str:
    """Return the text of an exception: its message, if it was raised with one."""
    return error.args[0] if error.args and isinstance(error.args[0], Message) else str(error)


def encoded(text: str) -> str:
    """Return a message as JSON, for a database or another process; a text without values stays as it is."""
    if isinstance(text, Message) and text.values:
        return json.dumps(_form(text), ensure_ascii=False)
    # Another text of this form must not be read as a message.
    return encoded(joined("", [str(text)])) if text.startswith(_START) else str(text)


def decoded(text: str) -> Message:
    """Read what `encoded` wrote; another text, such as one that an earlier version stored, is a message by itself."""
    if text.startswith(_START):
        with suppress(ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError):
            return cast(Message, _from_form(json.loads(text)))
    return plain(text)


def plain(text: str) -> Message:
    """Take a text for a message without values; it is translated if it is a code."""
    return text if isinstance(text, Message) else Message(text.replace("{", "{{").replace("}", "}}"))


def _made_again(code: str, values: dict[str, Any]) -> Message:
    return Message(code, **values)


class _Translator(Formatter):
    def __init__(self, translate: Callable[[str], str], number: Callable[[str], str]) -> None:
        self._translate, self._number = translate, number

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, Message):
            return value.translated(self._translate, self._number)
        text = format(value, format_spec)
        return self._number(text) if isinstance(value, (int, float)) else text


def _form(value: Any) -> Any:
    if isinstance(value, Message):
        return {"code": value.code, "values": {name: _form(each) for name, each in value.values.items()}}
    return value if isinstance(value, (int, float)) else str(value)


def _from_form(form: Any) -> Any:
    if isinstance(form, dict):
        # A template could reach into objects (`{a.__class__}`) or ask for endless padding.
        for _, name, spec, _ in Formatter().parse(form["code"]):
            if name is not None and not (name.isidentifier() and _SPEC.fullmatch(spec or "")):
                raise ValueError(name)
        return Message(form["code"], **{name: _from_form(each) for name, each in form["values"].items()})
    return form
