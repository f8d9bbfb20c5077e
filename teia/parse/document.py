"""One answer as the processors see it, and a processor's findings about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from resiliparse.parse.html import HTMLTree

from teia.config.sections import LimitSettings
from teia.parse import mime
from teia.parse.extract import Extract
from teia.parse.headers import ResponseHead
from teia.parse.html.bounds import MAX_TAGS, limit_markup
from teia.parse.html.tree import TreeExtract
from teia.parse.scan import is_plain, scan
from teia.parse.text import encoding
from teia.records import PageContent
from teia.urls import DEFAULT_RULES


@dataclass(frozen=True, slots=True)
class ParseOptions:
    """Settings for reading the documents of one collection; headings are wanted with the text, or for an index."""

    limits: LimitSettings = field(default_factory=LimitSettings)
    want_requisites: bool = False
    agent: str = "teia"
    rules: tuple[str, ...] = DEFAULT_RULES
    want_text: bool = True
    want_headings: bool = True


@dataclass(frozen=True, slots=True)
class ListedUrl:
    """One entry of a sitemap or feed: a URL and the time of its last change as its site reports it (Unix seconds)."""

    url: str
    modified_s: float | None = None
    title: str = ""
    is_broken_date: bool = False


@dataclass(frozen=True, slots=True)
class Findings(PageContent):
    """Findings of one processor; all fields are optional, and their order stays: users' processors may rely on it.

    Findings of several processors are merged: the first non-empty text of each field counts, links and entries are
    joined, flags, reserved uses and counts add up. `truncated` names the parts that were cut: `depth`, `links` …
    """

    entries: tuple[ListedUrl, ...] = ()
    noindex: bool = False
    nofollow: bool = False
    truncated: tuple[str, ...] = ()
    images: int = 0
    mail_links: int = 0
    anchor_count: int = 0
    has_scripts: bool = True
    reserved: frozenset[str] = frozenset()


class Document:
    """A decoded answer: its URL, head, media type and payload; its text and its tree, made on first use.

    `url` is canonical. `language` of a finding is the declared one; detection comes later, on the text.
    """

    def __init__(self, url: str, head: ResponseHead, payload: bytes, options: ParseOptions) -> None:
        self.url = url
        self.head = head
        self.payload = payload
        self.options = options
        self.declared_type = mime.content_type(head.headers.all("content-type"))
        self.media_type = mime.effective_type(self.declared_type, payload)
        self._earlier: Document | None = None
        self.content: Findings | None = None
        """Findings of `read_html` that are the same at every URL, once it has made them."""

    def share(self, earlier: Document) -> None:
        """Take over what a document with the same payload has found, if it is of the same type and options."""
        if earlier.options is self.options and earlier.declared_type == self.declared_type and earlier.is_scanned:
            self._earlier, self.content = earlier, earlier.content

    @cached_property
    def charset(self) -> str:
        """WHATWG name of the encoding."""
        if self._earlier is not None:
            return self._earlier.charset
        label = self.declared_type.charset if self.declared_type else ""
        is_html = not mime.is_xml(self.media_type) and self.media_type != "text/plain"
        return encoding.determine_encoding(self.payload, label, is_html=is_html)

    @cached_property
    def markup(self) -> str:
        """The payload as characters."""
        return encoding.to_text(self.payload, self.charset)

    @cached_property
    def _limited_markup(self) -> tuple[str | bytes, tuple[str, ...]]:
        """Markup that any parser can take, as bytes if they are already the UTF-8 that the parser wants."""
        if self.charset == "utf-8" and is_plain(self.payload):
            return self.payload, ()
        return limit_markup(self.markup)

    @cached_property
    def _scanned(self) -> Extract | None:
        """Result of scanning the original payload, with any number of tags: the scanner reads them one by one."""
        if self._earlier is not None:
            return self._earlier._scanned
        # Requisites are read from the tree, so scanning would be work for nothing.
        if self.options.want_requisites or self.charset != "utf-8" or not is_plain(self.payload, MAX_TAGS):
            return None
        return scan(self.payload, want_text=self.options.want_text)

    @cached_property
    def extract(self) -> Extract:
        """Extract of a page: scanned if possible, otherwise from the tree."""
        scanned, want_text = self._scanned, self.options.want_text
        if scanned is None and not self.options.want_requisites:
            markup = self._limited_markup[0]
            if isinstance(markup, str):  # otherwise it was just tried
                scanned = scan(markup.encode("utf-8", "replace"), want_text=want_text)
        return scanned or TreeExtract(self.tree, want_text=want_text)

    @property
    def is_scanned(self) -> bool:
        """True if `extract` was made by scanning the payload as it is."""
        return "_scanned" in self.__dict__ and self._scanned is not None

    @property
    def losses(self) -> tuple[str, ...]:
        """Parts that were cut before `extract` was made."""
        return () if self._scanned is not None else self.tree_losses

    @property
    def tree_losses(self) -> tuple[str, ...]:
        """Parts that were cut before `tree` was made: it takes fewer tags than the scanner does."""
        return self._limited_markup[1]

    @cached_property
    def tree(self) -> HTMLTree:
        """The document as a browser builds it (lexbor), parsed once for all processors."""
        markup = self._limited_markup[0]
        return HTMLTree.parse(markup) if isinstance(markup, str) else HTMLTree.parse_from_bytes(markup, "utf-8")
