"""Values of filters: hosts, languages, types, links, titles, dates.

Names may be written in English or Portuguese, and as other search engines call them. An unreadable value is no
error: the reader returns None, and the query is searched for its words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

from teia import urls
from teia.lib.language_names import LANGUAGE_NAMES
from teia.search.query.notes import NoteKind
from teia.search.query.tree import MAX_PHRASE_WORDS, MAX_VALUE_CHARS, Ago, Moment
from teia.search.query.words import folded, longest_indexed, words_of

TYPES: dict[str, tuple[str, ...]] = {
    "html": ("text/html", "application/xhtml+xml"),
    "pdf": ("application/pdf",),
    "text": ("text/plain",),
    "markdown": ("text/markdown",),
    "csv": ("text/csv",),
    "json": ("application/json",),
    "xml": ("text/xml", "application/xml"),
    "feed": ("application/rss+xml", "application/atom+xml", "application/rdf+xml"),
    "postscript": ("application/postscript",),
    "book": ("application/epub+zip",),
    "word": (
        "application/msword",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "application/vnd.oasis.opendocument.text",
    ),
    "sheet": (
        "application/vnd.ms-excel",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "application/vnd.oasis.opendocument.spreadsheet",
    ),
    "slides": (
        "application/vnd.ms-powerpoint",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "application/vnd.oasis.opendocument.presentation",
    ),
}
"""Short names for groups of media types that users consider one type."""

_TYPE_NAMES = {name: name for name in TYPES} | {
    "epub": "book", "livro": "book",
    "htm": "html", "xhtml": "html", "page": "html", "pagina": "html", "txt": "text", "texto": "text", "md": "markdown",
    "rss": "feed", "atom": "feed", "ps": "postscript", "doc": "word", "docx": "word", "odt": "word", "xls": "sheet",
    "xlsx": "sheet", "ods": "sheet", "planilha": "sheet", "ppt": "slides", "pptx": "slides", "odp": "slides",
}  # fmt: skip
_LANGUAGE_NAMES = {folded(name): code for code, names in LANGUAGE_NAMES.items() for name in names} | {
    "por": "pt", "eng": "en", "espanol": "es", "spa": "es", "fra": "fr", "deutsch": "de", "deu": "de", "ita": "it",
}  # fmt: skip
_SWITCHES = {"on": True, "yes": True, "sim": True, "off": False, "no": False, "nao": False}
_HOURS = {"h": 1, "d": 24, "w": 7 * 24, "m": 30 * 24, "y": 365 * 24}

_HOST = re.compile(r"[a-z0-9_-][a-z0-9._-]*|\[[0-9a-f:.]+\]")
_LANGUAGE_TAG = re.compile(r"([a-z]{2,3})(?:[-_][a-z0-9_-]*)?")
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9.+-]*/[a-z0-9][a-z0-9.+-]*")
_DATE = re.compile(r"([0-9]{4})(?:[-/]([0-9]{1,2})(?:[-/]([0-9]{1,2}))?)?")
_AGO = re.compile(r"([0-9]{1,4})([hdwmy])")

Value = str | bool | Moment


def _host(value: str) -> str | None:
    """Return the host of a name, a suffix (`.br`), a pattern (`*.br`) or a whole address."""
    # The URL parser canonicalises the host: IDNs, case, addresses in any spelling.
    url = urls.from_user(value.removeprefix("*").removeprefix("."))
    host = urls.host_of(url) if url else ""
    return host if _HOST.fullmatch(host) else None


def _language(value: str) -> str | None:
    name = folded(value)
    tag = _LANGUAGE_TAG.fullmatch(name)
    return _LANGUAGE_NAMES.get(name) or (_LANGUAGE_NAMES.get(tag.group(1), tag.group(1)) if tag else None)


def _type(value: str) -> str | None:
    name = folded(value).removeprefix(".")
    return _TYPE_NAMES.get(name) or (name if _MEDIA_TYPE.fullmatch(name) else None)


def _link(value: str) -> str | None:
    url = urls.from_user(value)
    return url if url and len(url) <= MAX_VALUE_CHARS else None


def _title(value: str) -> str | None:
    return " ".join(longest_indexed(words_of(value))[:MAX_PHRASE_WORDS]) or None


def _moment(value: str) -> Moment | None:
    if ago := _AGO.fullmatch(value.lower()):
        return Ago(int(ago.group(1)) * _HOURS[ago.group(2)])
    match = _DATE.fullmatch(value)
    if not match:
        return None
    # A missing month or day is the first: `2026` begins on January 1st.
    year, month, day = (int(part or 1) for part in match.groups())
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _switch(value: str) -> bool | None:
    return _SWITCHES.get(folded(value))


@dataclass(frozen=True, slots=True)
class QueryFilter:
    """One kind of filter: its name, other names of it, the reader of its value, and the note for an unreadable one."""

    name: str
    parse: Callable[[str], Value | None]
    error_note: NoteKind
    aliases: tuple[str, ...] = ()


_FILTERS = (
    QueryFilter("site", _host, NoteKind.BAD_HOST, ("domain", "dominio", "sitio")),
    QueryFilter("host", _host, NoteKind.BAD_HOST, ("servidor",)),
    QueryFilter("lang", _language, NoteKind.BAD_LANG, ("language", "idioma", "lingua")),
    QueryFilter("type", _type, NoteKind.BAD_TYPE, ("filetype", "ext", "tipo")),
    QueryFilter("link", _link, NoteKind.BAD_LINK),
    QueryFilter("title", _title, NoteKind.BAD_TITLE, ("intitle", "titulo")),
    QueryFilter("after", _moment, NoteKind.BAD_DATE, ("since", "depois", "desde")),
    QueryFilter("before", _moment, NoteKind.BAD_DATE, ("antes",)),
    QueryFilter("expand", _switch, NoteKind.BAD_EXPAND, ("expandir",)),
)
_BY_NAME = {name: each for each in _FILTERS for name in (each.name, *each.aliases)}


def find_filter(name: str) -> QueryFilter | None:
    """Return the filter of a name, in any case and with or without accents; None if there is none."""
    return _BY_NAME.get(folded(name))


def has_path(value: str) -> bool:
    """Tell whether a value given for a host contains more than a host."""
    url = urls.from_user(value)
    return url is not None and urls.split(url).target != "/"


def media_types(value: str) -> tuple[str, ...]:
    """Return the media types that a value of `type:` stands for."""
    return TYPES.get(value, (value,))
