"""Processors by media type (A15): several per document, users' own beside the built-in ones.

A processor is any callable that takes a `Document` and returns `Findings`, a plain mapping of names to texts (which
goes into the page's metadata), or None. One that fails costs only its own findings; the page's metadata names
it (`failed-processors`). Users name theirs as `MEDIA_TYPE=module:function` in `parse.processors`, or, if an installed
package offers it, as `MEDIA_TYPE=NAME`; media types may hold `*`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Protocol

from teia.config import extensions
from teia.config.extensions import load_extension
from teia.errors import WrongValue
from teia.parse import mime
from teia.parse.document import Document, Findings
from teia.parse.files import feed, sitemap
from teia.parse.html.links import links_of_css
from teia.parse.html.processor import read_html

MAX_TEXT_CHARS = 4_000_000
TEXT_TYPES = (
    "text/plain", "text/markdown", "text/x-markdown", "text/x-rst", "text/prs.fallenstein.rst", "text/asciidoc",
    "text/org", "text/x-tex", "application/x-tex", "application/x-latex", "text/troff", "text/csv",
    "text/tab-separated-values",
)  # fmt: skip
"""Texts with few marks between their words, or none: they are read as they are."""


class Processor(Protocol):
    """Interface of a processor: a callable that returns findings about a document."""

    def __call__(self, document: Document, /) -> Findings | Mapping[str, str] | None:
        """Return the findings. Raising is allowed; it costs only this processor's findings."""


class Processors:
    """An ordered list of (pattern of media types, name, processor). `for_type` caches its lookups."""

    def __init__(self, entries: Iterable[tuple[str, str, Processor]]) -> None:
        self._entries = tuple(entries)
        self._by_type: dict[str, tuple[tuple[str, Processor], ...]] = {}

    def with_added(self, pattern: str, name: str, processor: Processor) -> Processors:
        """Return a registry with one more processor, which runs last; one of a text type runs before the plain reader.

        The first text that is found is that of the page, and one that knows the marks of a text knows better.
        """
        added = (pattern, name, processor)
        return Processors((added, *self._entries) if pattern in TEXT_TYPES else (*self._entries, added))

    def for_type(self, media_type: str) -> tuple[tuple[str, Processor], ...]:
        found = self._by_type.get(media_type)
        if found is None:
            found = tuple((name, each) for pattern, name, each in self._entries if fnmatchcase(media_type, pattern))
            # Media types come from servers, so the cache needs a bound.
            if len(self._by_type) < 1_000:
                self._by_type[media_type] = found
        return found


def read_plain_text(document: Document) -> Findings:
    text = document.markup.replace("\0", "").strip()
    return Findings(text=text[:MAX_TEXT_CHARS], truncated=("text",) if len(text) > MAX_TEXT_CHARS else ())


def read_xml(document: Document) -> Findings | None:
    """Read an XML document by its root: a page, a sitemap or a feed. Others are archived as they are."""
    root = mime.xml_root(document.payload)
    if root == "html":
        return read_html(document)
    if root in sitemap.ROOTS:
        return sitemap.read_sitemap(document)
    return feed.read_feed(document) if root in feed.ROOTS else None


def read_pdf(document: Document) -> Findings | None:
    """Read a PDF. Its library is imported late: loading takes as long as reading thirty pages.

    Most crawls see no PDF.
    """
    from teia.parse.files import pdf

    return pdf.read_pdf(document)


def read_office(document: Document) -> Findings | None:
    """Read a document that is a ZIP file of XML, imported late like the reader of PDF."""
    from teia.parse.files import office

    return office.read_office(document)


def read_postscript(document: Document) -> Findings | None:
    """Read a PostScript document by Ghostscript, imported late like the reader of PDF."""
    from teia.parse.files import postscript

    return postscript.read_postscript(document)


def read_css(document: Document) -> Findings | None:
    if not document.options.want_requisites:
        return None
    return Findings(links=links_of_css(document))


BUILT_IN = Processors(
    (
        ("text/html", "html", read_html),
        *((media_type, "text", read_plain_text) for media_type in TEXT_TYPES),
        ("text/xml", "xml", read_xml),
        ("application/xml", "xml", read_xml),
        ("*+xml", "xml", read_xml),
        ("text/css", "css", read_css),
        ("application/pdf", "pdf", read_pdf),
        ("application/postscript", "postscript", read_postscript),
        ("application/vnd.openxmlformats-officedocument.*", "office", read_office),
        ("application/vnd.oasis.opendocument.*", "office", read_office),
        ("application/epub+zip", "office", read_office),
        ("application/zip", "office", read_office),
    )
)


def with_user_processors(names: Iterable[str], processors: Processors = BUILT_IN) -> Processors:
    """Add the processors that a configuration names; each `MEDIA_TYPE=module:function`."""
    for name in names:
        pattern, equals, target = name.partition("=")
        offered: Processor | None = None if ":" in target else load_extension(extensions.PROCESSORS, target.strip())
        if not (equals and (":" in target or offered) and ("/" in pattern or pattern.startswith("*"))):
            raise WrongValue(
                "parse.processors", name, "must look like text/html=package.module:function, or name an extension"
            )
        processors = processors.with_added(pattern.strip().lower(), target, offered or _import_processor(name, target))
    return processors


def _import_processor(name: str, target: str) -> Processor:
    module_name, _, attribute = target.partition(":")
    try:
        found = getattr(importlib.import_module(module_name.strip()), attribute.strip())
    except (ImportError, AttributeError, ValueError) as error:
        raise WrongValue("parse.processors", name, f"cannot be imported: {error}") from error
    if not callable(found):
        raise WrongValue("parse.processors", name, "is not a function")
    processor: Processor = found
    return processor
