"""RSS and Atom: a site's new pages, with times (RSS 0.9x, 1.0 and 2.0; Atom 0.3 and 1.0).

An item's address is its `link`; in RSS without one, a `guid` that is a URL. The text of a feed has the titles and texts
of its items, without their tags.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import unescape

from teia.parse.dates import parse_date
from teia.parse.document import Document, Findings, ListedUrl
from teia.parse.files import xml_events
from teia.parse.html.links import LinkCollector
from teia.parse.text.normal import one_line
from teia.records import LinkKind

MAX_ITEMS = 5_000
MAX_TITLE_CHARS = 500
MAX_ITEM_CHARS, MAX_TEXT_CHARS = 20_000, 1_000_000
ROOTS = {"rss": "rss", "rdf": "rss", "feed": "atom"}
_DATES = ("pubdate", "updated", "published", "modified", "issued", "date")
_FIELDS = frozenset({"title", "link", "guid", *_DATES})
_CONTENTS = ("encoded", "content", "description", "summary")
"""Elements with the text of an item, the longer ones first; an item's text is the first of them that it has."""

_TAG = re.compile(r"<[^<>]*>")
_MAX_FIELD_CHARS = 4_096
_CHANNEL_TAGS = frozenset({"hub", "self"})
"""Relations of a feed to the hub that announces its changes, and to itself (WebSub)."""


@dataclass(slots=True)
class _Item:
    """Fields of a channel or one of its items; `references` in the order of preference."""

    values: dict[str, str] = field(default_factory=dict)
    references: list[str] = field(default_factory=list)

    def modified_s(self) -> float | None:
        return next((when for name in _DATES if (when := parse_date(self.values.get(name, ""))) is not None), None)

    def has_broken_date(self) -> bool:
        return self.modified_s() is None and any(self.values.get(name, "").strip() for name in _DATES)


@dataclass(slots=True)
class _Reader:
    """The state between two events. Elements inside an item that are not its own fields are ignored."""

    root: str = ""
    collecting: str = ""
    content: str = ""
    channel: _Item = field(default_factory=_Item)
    item: _Item | None = None
    items: list[_Item] = field(default_factory=list)
    channel_values: dict[str, str] = field(default_factory=dict)
    depth: int = 0
    outer_depth: int = 0

    def start(self, event: xml_events.XmlStart) -> None:
        self.root = self.root or event.name
        if event.name in {"item", "entry"} and not event.prefix:
            self.item, self.outer_depth, self.depth = _Item(), self.depth, 0
            return
        self.depth += 1
        if event.name == "link" and self.item is None:
            for word in event.attribute("rel").lower().split():
                if word in _CHANNEL_TAGS and event.attribute("href"):
                    self.channel_values.setdefault(word, event.attribute("href")[:_MAX_FIELD_CHARS])
        # dc:date is the only field of another vocabulary that is used.
        known = event.name in _FIELDS and (not event.prefix or event.prefix == "dc")
        # Fields of the channel are at depth 3 at most (`rss/channel/title`); deeper ones are those of `image`.
        self.collecting = event.name if known and self.depth <= (1 if self.item else 3) else ""
        if self.item and event.name in _CONTENTS and event.prefix in {"", "content"} and self.depth == 1:
            self.content = event.name
        if known and event.name == "link" and self.root == "feed":
            if event.attribute("rel").lower() in {"", "alternate"}:
                self._current().references.append(event.attribute("href"))
            self.collecting = ""

    def text(self, text: str) -> None:
        values = self._current().values
        if self.content and len(values.get(self.content, "")) < MAX_ITEM_CHARS:
            # A blank between the elements of content that is XML itself.
            values[self.content] = f"{values.get(self.content, '')} {text[:MAX_ITEM_CHARS]}"
        if self.collecting and len(values.get(self.collecting, "")) < _MAX_FIELD_CHARS:
            values[self.collecting] = values.get(self.collecting, "") + text[:_MAX_FIELD_CHARS]

    def end(self, event: xml_events.XmlEnd) -> None:
        self.collecting = ""
        self.content = self.content if self.depth > 1 else ""
        if self.item is not None and event.name in {"item", "entry"} and not event.prefix:
            self.items.append(self.item)
            # Back among the channel's own fields: an `image` after the items has a title of its own.
            self.item, self.depth = None, self.outer_depth
        else:
            self.depth = max(0, self.depth - 1)

    def _current(self) -> _Item:
        return self.item if self.item is not None else self.channel


def read_feed(document: Document) -> Findings:
    """Return the entries of a feed, in its order."""
    return read_feed_text(document.markup, document)


def read_feed_text(text: str, document: Document) -> Findings:
    """Read a decoded feed; a sitemap may be one (sitemaps.org allows it)."""
    reader = _Reader()
    try:
        for event in xml_events.events(text):
            if isinstance(event, xml_events.XmlStart):
                reader.start(event)
            elif isinstance(event, xml_events.XmlText):
                reader.text(event.text)
            else:
                reader.end(event)
            if len(reader.items) > MAX_ITEMS:
                break
    except xml_events.DoctypeRefused:
        return Findings(metadata={"feed": "rejected: it has a DOCTYPE"})
    return _findings(reader, document)


def _findings(reader: _Reader, document: Document) -> Findings:
    links = LinkCollector(document.url, document.options)
    entries = [entry for item in reader.items[:MAX_ITEMS] for entry in _entries(item, links)]
    for reference in _references(reader.channel):
        links.add(reference, LinkKind.FEED)
    title = one_line(reader.channel.values.get("title", ""), MAX_TITLE_CHARS)
    text = "\n".join(filter(None, (title, *map(_text_of, reader.items[:MAX_ITEMS]))))
    return Findings(
        title=title,
        text=text[:MAX_TEXT_CHARS],
        metadata={"feed": ROOTS.get(reader.root, "rss"), **reader.channel_values},
        links=links.links(),
        entries=tuple(entries),
        truncated=(("links",) if links.is_full or len(reader.items) > MAX_ITEMS else ())
        + (("text",) if len(text) > MAX_TEXT_CHARS else ()),
    )


def _text_of(item: _Item) -> str:
    """Return title and text of an item; the text may be markup that was written as text."""
    title = one_line(item.values.get("title", ""), MAX_TITLE_CHARS)
    content = next((item.values[name] for name in _CONTENTS if item.values.get(name, "").strip()), "")
    return f"{title}\n{one_line(unescape(_TAG.sub(' ', content)), MAX_ITEM_CHARS)}".strip()


def _entries(item: _Item, links: LinkCollector) -> list[ListedUrl]:
    title = one_line(item.values.get("title", ""), MAX_TITLE_CHARS)
    found: list[ListedUrl] = []
    for reference in _references(item):
        url = links.resolve(reference)
        if url is not None:
            links.add(reference, LinkKind.FEED, title[:200])
            found.append(ListedUrl(url, item.modified_s(), title, item.has_broken_date()))
    return found


def _references(item: _Item) -> list[str]:
    written = item.values.get("link", "").strip() or item.values.get("guid", "").strip()
    # A `guid` may be any text; only one that looks like a URL is taken for an address.
    is_address = "link" in item.values or written.lower().startswith(("http://", "https://"))
    return item.references or ([written] if written and is_address else [])
