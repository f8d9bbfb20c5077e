"""Sentences for people are messages: a code in the source that gettext finds, values beside it, and a translation.

That each code has its translation and that no translation is left over, tests/web/test_messages.py checks.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from string import Formatter

from babel.messages.pofile import read_po

from tests.web.messages import LOCALES, catalog_file

from .tree import Module, modules, walk

MAKERS = {"teia.lib.message", "teia.web.server.errors", "teia.collections.control_file", "teia.search.query.notes"}
"""Modules that make messages of codes which stand elsewhere (`message_code`)."""


def placeholders(code: str) -> set[tuple[str, str, str]]:
    """Names, formats and conversions of a template's placeholders."""
    return {(name, spec or "", kind or "") for _, name, spec, kind in Formatter().parse(code) if name is not None}


def messages(module: Module) -> Iterator[ast.Call]:
    for node in walk(module.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Message":
            yield node


def test_every_code_is_written_out_and_has_its_values() -> None:
    wrong = []
    for module in modules():
        for call in messages(module) if module.name not in MAKERS else ():
            code = call.args[0] if len(call.args) == 1 else None
            if not isinstance(code, ast.Constant) or not isinstance(code.value, str):
                wrong.append(f"{module.path}:{call.lineno}: the code is not a literal")
                continue
            given = {each.arg for each in call.keywords}
            needed = {name for name, _, _ in placeholders(code.value)}
            if None not in given and given != needed:
                wrong.append(f"{module.path}:{call.lineno}: {needed} needed, {given} given")
    assert not wrong


def test_every_translation_has_the_placeholders_of_its_code() -> None:
    wrong = []
    for locale in LOCALES:
        with catalog_file(locale).open("rb") as file:
            for each in read_po(file, locale=locale):
                is_code = isinstance(each.id, str) and any(path.endswith(".py") for path, _ in each.locations)
                if is_code and "%(" not in each.id and not placeholders(each.string) <= placeholders(each.id):
                    wrong.append(each.id)
    assert not wrong


def test_no_message_is_flattened_to_text_on_its_way_to_a_reader() -> None:
    """An f-string around a message, and `str(error)`, would need the old way back: parsing English sentences."""
    wrong = []
    for module in modules():
        for node in walk(module.tree):
            parts = (node.left, node.right) if isinstance(node, ast.BinOp) else ()
            inside = ast.walk(node) if isinstance(node, ast.JoinedStr) else parts
            if any(isinstance(each, ast.Call) and ast.unparse(each.func) == "Message" for each in inside):
                wrong.append(f"{module.path}:{node.lineno}: a message inside an f-string or a sum")  # type: ignore[attr-defined]
            is_text = isinstance(node, ast.Call) and ast.unparse(node) in {"str(error)", "str(failure)"}
            if is_text and module.name.startswith("teia.web."):
                wrong.append(f"{module.path}:{node.lineno}: use `error.message`")  # type: ignore[attr-defined]
    assert not wrong
