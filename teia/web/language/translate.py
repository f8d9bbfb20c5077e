"""Messages in the reader's language."""

from __future__ import annotations

import gettext
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TypeVar, cast

from markupsafe import Markup

from teia.lib.message import Message, plain
from teia.web.language.numbers import ENGLISH, LOCALES, Locale

T = TypeVar("T")
_CATALOGUES = Path(__file__).resolve().parents[1] / "locale"


class Translator:
    """Translator of messages into one language; English ones stay as they are."""

    def __init__(self, locale: Locale) -> None:
        name = locale.tag.replace("-", "_")
        # English has no catalogue: its codes are its sentences.
        self.catalogue = gettext.translation("teia", _CATALOGUES, [name], fallback=True)
        self._separators = str.maketrans(",.", locale.thousands + locale.decimal)
        self._is_english = locale is ENGLISH

    def translate(self, text: str | None) -> str:
        """Translate a message, or a text that is the code of one; other texts stay as they are."""
        if not text or (self._is_english and not isinstance(text, Message)):
            return text or ""
        return plain(text).translated(self._gettext, self._number)

    def translate_marked(self, text: str | None) -> str:
        """Like `translate`; a text without a translation is marked as English."""
        translated = self.translate(text)
        is_foreign = not self._is_english and translated == text and translated
        return Markup('<span lang="en">{}</span>').format(translated) if is_foreign else translated

    def translate_record(self, record: T) -> T:
        """Translate every message in a record of dataclasses and lists."""
        if isinstance(record, Message):
            return cast(T, self.translate(record))
        if is_dataclass(record) and not isinstance(record, type):
            values = {each.name: self.translate_record(getattr(record, each.name)) for each in fields(record)}
            return cast(T, replace(record, **values))
        if isinstance(record, (list, tuple)):
            return cast(T, type(record)(map(self.translate_record, record)))
        return record

    def _gettext(self, code: str) -> str:
        return self.catalogue.gettext(code) if code else ""

    def _number(self, text: str) -> str:
        return text.translate(self._separators)


@lru_cache
def translator_for(tag: str) -> Translator:
    return Translator(LOCALES[tag])
