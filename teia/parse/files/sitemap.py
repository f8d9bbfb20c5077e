"""Sitemaps: lists of a site's URLs with change times (sitemaps.org), as XML, as text, compressed or not.

Namespaces are judged by prefix alone: an element counts if it has the prefix of the root. So `image:loc` is not a
page, while a sitemap in an unknown namespace is still read. URLs of other hosts are kept; the scope decides if they
may be crawled.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from teia.parse import mime
from teia.parse.dates import parse_date
from teia.parse.decode import GZIP_MAGIC, gunzip
from teia.parse.document import Document, Findings, ListedUrl
from teia.parse.files import feed, xml_events
from teia.parse.html.links import LinkCollector
from teia.parse.text import encoding
from teia.records import LinkKind

MAX_BYTES = 50 * 2**20
MAX_URLS = 50_000
ROOTS = frozenset({"urlset", "sitemapindex"})
_MAX_FIELD_CHARS = 4_096


@dataclass(slots=True)
class _Reader:
    """The state between two events: the element whose text is being collected, and the entry so far."""

    prefix: str = ""
    root: str = ""
    collecting: str = ""
    values: dict[str, str] = field(default_factory=dict)

    def start(self, event: xml_events.XmlStart) -> None:
        if not self.root:
            self.prefix, self.root = event.prefix, event.name
        if event.prefix != self.prefix:
            self.collecting = ""
        elif event.name in {"url", "sitemap"}:
            self.values, self.collecting = {}, "entry"
        elif event.name in {"loc", "lastmod"}:
            self.collecting = event.name
        else:
            self.collecting = ""

    def text(self, text: str) -> None:
        if self.collecting and len(self.values.get(self.collecting, "")) < _MAX_FIELD_CHARS:
            self.values[self.collecting] = self.values.get(self.collecting, "") + text[:_MAX_FIELD_CHARS]

    def end(self, event: xml_events.XmlEnd) -> tuple[str, str] | None:
        """Return location and time when an entry is complete. Some indexes write the URL without a `loc`."""
        if event.prefix != self.prefix:
            return None
        self.collecting = ""
        if event.name not in {"url", "sitemap"}:
            return None
        location = self.values.get("loc") or self.values.get("entry", "")
        return location.strip(), self.values.get("lastmod", "")


def read_sitemap(document: Document) -> Findings:
    """Return the entries of a sitemap, of an index of sitemaps, or of a list of URLs in plain text."""
    data, truncated = document.payload, ""
    if data.startswith(GZIP_MAGIC):
        data, truncated, _ = gunzip(data, MAX_BYTES, document.options.limits.decoded_ratio)
    charset = document.declared_type.charset if document.declared_type else ""
    text = encoding.to_text(data, encoding.determine_encoding(data, charset, is_html=False))
    if not text.lstrip("\ufeff \t\r\n").startswith("<"):
        return _findings(_lines(text), "text", document, truncated)
    # The protocol allows RSS and Atom in the place of a sitemap.
    if mime.xml_root(data) in feed.ROOTS:
        return feed.read_feed_text(text, document)
    reader = _Reader()
    try:
        entries = _entries(text, reader)
    except xml_events.DoctypeRefused:
        return Findings(metadata={"sitemap": "rejected: it has a DOCTYPE"})
    return _findings(entries, "index" if reader.root == "sitemapindex" else "urls", document, truncated)


def _entries(text: str, reader: _Reader) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for event in xml_events.events(text):
        if isinstance(event, xml_events.XmlStart):
            reader.start(event)
        elif isinstance(event, xml_events.XmlText):
            reader.text(event.text)
        elif (entry := reader.end(event)) is not None and entry[0]:
            found.append(entry)
            # One more than allowed shows that the list was cut.
            if len(found) > MAX_URLS:
                break
    return found


def _lines(text: str) -> list[tuple[str, str]]:
    lines = (line.strip("\ufeff \t\r") for line in text.split("\n", MAX_URLS + 1))
    return [(line, "") for line in lines if line.lower().startswith(("http://", "https://"))]


def _findings(found: list[tuple[str, str]], kind: str, document: Document, truncated: str) -> Findings:
    links = LinkCollector(document.url, document.options, max_links=MAX_URLS)
    entries: list[ListedUrl] = []
    for location, modified in found[:MAX_URLS]:
        url = links.resolve(location)
        if url is not None:
            links.add(location, LinkKind.SITEMAP)
            modified_s = parse_date(modified)
            entries.append(ListedUrl(url, modified_s, is_broken_date=modified_s is None and bool(modified.strip())))
    cut = ((truncated,) if truncated else ()) + (("links",) if len(found) > MAX_URLS else ())
    return Findings(metadata={"sitemap": kind}, links=links.links(), entries=tuple(entries), truncated=cut)
