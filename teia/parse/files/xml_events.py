"""Sitemaps and feeds as a stream of tags, well-formed or not.

Many feeds and sitemaps are not well-formed: bare ampersands, undeclared prefixes, a missing end. A real XML parser
stops there; this reader continues, because it only needs a few element names and their text. It looks for `<` and
`>` and nothing else, in time linear in the length. Entities are never defined or resolved beyond the five of XML
and character numbers, and a document with a DOCTYPE is refused: no sitemap or feed needs one, bombs do.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

_NAME = re.compile(r"[A-Za-z_][^\s/>]*+")
_ATTRIBUTE = re.compile(r"""([A-Za-z_][^\s=/>]*+)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)')""")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9A-Fa-f]{1,6}|amp|lt|gt|quot|apos);")
MAX_TAG_CHARS = 65_536
MAX_TAGS = 2_000_000
"""Four times the tags of a sitemap with as many URLs as are allowed. 50 MiB may hold 10 million, which cost 17 s."""


class DoctypeRefused(Exception):
    """The document declares a DOCTYPE."""


@dataclass(frozen=True, slots=True)
class XmlStart:
    """An element begins; names in lower case, prefix apart."""

    prefix: str
    name: str
    attributes: str

    def attribute(self, name: str) -> str:
        for found, double, single in _ATTRIBUTE.findall(self.attributes):
            if found.lower() == name:
                return unescape(double or single)
        return ""


@dataclass(frozen=True, slots=True)
class XmlEnd:
    """An element ends (or would, were it not empty)."""

    prefix: str
    name: str


@dataclass(frozen=True, slots=True)
class XmlText:
    """Characters between tags, entities resolved; those of a CDATA section as they are."""

    text: str


Event = XmlStart | XmlEnd | XmlText


def unescape(text: str) -> str:
    """Resolve the entities of XML itself and character numbers; all others stay as they are written."""
    return _ENTITY.sub(lambda match: html.unescape(match.group()), text) if "&" in text else text


def events(document: str) -> Iterator[Event]:
    """Yield the events of a document. It ends where no further tag is complete, or after MAX_TAGS."""
    position = 0
    for _ in range(MAX_TAGS):
        start = document.find("<", position)
        if start < 0:
            return
        if start > position and not document[position:start].isspace():
            yield XmlText(unescape(document[position:start]))
        if document.startswith("<!", start) or document.startswith("<?", start):
            text, position = _declaration(document, start)
            if text:
                yield XmlText(text)
        else:
            end = document.find(">", start)
            if end < 0:
                return
            # Only the beginning of a huge tag is read: its name is there, and attributes are few.
            yield from _tag(document[start + 1 : min(end, start + MAX_TAG_CHARS)])
            position = end + 1


def _declaration(document: str, start: int) -> tuple[str, int]:
    """Skip a comment or instruction, or take the text of a CDATA section; return the text and the next position."""
    if document.startswith("<![CDATA[", start):
        end = document.find("]]>", start)
        end = len(document) if end < 0 else end
        return document[start + 9 : end], end + 3
    if document[start : start + 9].upper() == "<!DOCTYPE":
        raise DoctypeRefused
    closing = "-->" if document.startswith("<!--", start) else "?>" if document.startswith("<?", start) else ">"
    end = document.find(closing, start)
    return "", len(document) if end < 0 else end + len(closing)


def _tag(inside: str) -> Iterator[Event]:
    """Yield the events of the text between `<` and `>`."""
    closing = inside.startswith("/")
    match = _NAME.match(inside, 1 if closing else 0)
    if match is None:
        return
    prefix, _, name = match.group().lower().rpartition(":")
    if not closing:
        yield XmlStart(prefix, name, inside[match.end() :])
    if closing or inside.endswith("/"):
        yield XmlEnd(prefix, name)
