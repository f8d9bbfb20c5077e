"""Media types: the Content-Type as browsers read it, and the evidence of the first bytes (WHATWG mimesniff).

Servers are wrong in both directions. The header decides between kinds of text (a page sent as text/plain is meant
to be read, not rendered); the bytes decide if it is text at all. Sniffing looks at the first KiB and nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

SNIFFED_BYTES = 1024
HTML = "text/html"
XML_TYPES = frozenset({"text/xml", "application/xml"})
BINARY = "application/octet-stream"

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~A-Za-z0-9]+")
_QUOTED_TEXT = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_BLANKS = "\t\n\r "


@dataclass(frozen=True, slots=True)
class MediaType:
    """A parsed Content-Type. `essence` is `type/subtype` in lower case; `parameters` keep the case of their values."""

    essence: str
    parameters: tuple[tuple[str, str], ...] = ()

    @property
    def charset(self) -> str:
        return next((value for name, value in self.parameters if name == "charset"), "")

    def __str__(self) -> str:
        return self.essence + "".join(f";{name}={_serialise(value)}" for name, value in self.parameters)


def _serialise(value: str) -> str:
    if _TOKEN.fullmatch(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def parse_media_type(text: str) -> MediaType | None:
    """Parse one MIME type by the WHATWG rules, or return None where a browser would ignore it."""
    text = text.strip(_BLANKS)
    kind, slash, rest = text.partition("/")
    subtype, _, rest = rest.partition(";")
    subtype = subtype.rstrip(_BLANKS)
    if not slash or not _TOKEN.fullmatch(kind) or not _TOKEN.fullmatch(subtype):
        return None
    parameters: dict[str, str] = {}
    position = 0
    while position < len(rest):
        name, value, position = _parameter(rest, position)
        if value is not None and _TOKEN.fullmatch(name) and _QUOTED_TEXT.fullmatch(value):
            parameters.setdefault(name, value)
    return MediaType(f"{kind}/{subtype}".lower(), tuple(parameters.items()))


def _parameter(text: str, position: int) -> tuple[str, str | None, int]:
    """Return name, value (None: there is none) and the start of the next parameter."""
    while position < len(text) and text[position] in _BLANKS:
        position += 1
    end = position
    while end < len(text) and text[end] not in ";=":
        end += 1
    name = text[position:end].lower()
    if end >= len(text) or text[end] == ";":
        return name, None, end + 1
    if text[end + 1 : end + 2] == '"':
        value, after = _quoted(text, end + 2)
        semicolon = text.find(";", after)
        return name, value, (semicolon if semicolon >= 0 else len(text)) + 1
    semicolon = text.find(";", end)
    semicolon = semicolon if semicolon >= 0 else len(text)
    value = text[end + 1 : semicolon].rstrip(_BLANKS)
    return name, value or None, semicolon + 1


def _quoted(text: str, position: int) -> tuple[str, int]:
    """Collect a quoted string whose opening quote stands before `position`; a missing closing quote is forgiven."""
    collected: list[str] = []
    while position < len(text):
        char = text[position]
        position += 1
        if char == '"':
            break
        if char == "\\" and position < len(text):
            char = text[position]
            position += 1
        collected.append(char)
    return "".join(collected), position


_LIST_ITEM = re.compile(r'(?:[^",]|"(?:[^"\\]|\\.)*+"?)*+')


def content_type(values: Sequence[str]) -> MediaType | None:
    """Return the type of several Content-Type fields together: the last valid one (Fetch standard).

    An earlier charset for the same type applies if the last field has none.
    """
    return _content_type(tuple(values))


@lru_cache(maxsize=256)  # a server sends the same for all its pages
def _content_type(values: tuple[str, ...]) -> MediaType | None:
    found: MediaType | None = None
    for value in values:
        for item in _LIST_ITEM.findall(value):
            parsed = parse_media_type(item)
            if parsed is None or parsed.essence == "*/*":
                continue
            names = {name for name, _ in parsed.parameters}
            if found and parsed.essence == found.essence and "charset" not in names and found.charset:
                parsed = MediaType(parsed.essence, (*parsed.parameters, ("charset", found.charset)))
            found = parsed
    return found


# ---- sniffing -------------------------------------------------------------------------------------------------------

_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"%PDF-", "application/pdf"),
    (b"%!PS-Adobe-", "application/postscript"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b\x08", "application/gzip"),
    (b"Rar!\x1a\x07\x00", "application/x-rar-compressed"),
    (b"\x7fELF", BINARY),
    (b"OggS\x00", "application/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"wOFF", "font/woff"),
    (b"wOF2", "font/woff2"),
)
_HTML_START = re.compile(
    rb"[\t\n\x0c\r ]*+(?:<!DOCTYPE HTML|<HTML|<HEAD|<SCRIPT|<IFRAME|<H1|<DIV|<FONT|<TABLE|<A|<STYLE|<TITLE|<B|<BODY"
    rb"|<BR|<P|<!--|<META|<FRAMESET)(?:[ >]|(?<=--))",
    re.IGNORECASE,
)
_HTML_TAG = re.compile(
    rb"</?(?:A|AREA|BODY|BR|CENTER|DIV|FONT|FORM|FRAME|H[1-6]|HEAD|HTML|I?FRAME|IMG|LI|P|SPAN|TABLE|T[DHR]|U?L)[\s>/]",
    re.IGNORECASE,
)
_XML_START = re.compile(rb"(?:\xef\xbb\xbf)?[\t\n\x0c\r ]*+<\?xml")
_XML_ROOT = re.compile(rb"<(?:[A-Za-z_][\w.-]*:)?([A-Za-z_][\w.-]*)")
_BOMS = (b"\xfe\xff", b"\xff\xfe", b"\xef\xbb\xbf")
_BINARY_BYTE = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
_ROOT_TYPES = {
    "rss": "application/rss+xml", "feed": "application/atom+xml", "rdf": "application/rdf+xml",
    "urlset": "text/xml", "sitemapindex": "text/xml",
}  # fmt: skip
_UNKNOWN = frozenset({"", "unknown/unknown", "application/unknown", "*/*"})


def signature(data: bytes) -> str:
    """Return the type that the first bytes prove, or an empty text."""
    for magic, media_type in _SIGNATURES:
        if data.startswith(magic):
            return media_type
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    # Readers accept junk before a PDF, so servers send it.
    return "application/pdf" if b"%PDF-" in data[:SNIFFED_BYTES] and _BINARY_BYTE.search(data[:SNIFFED_BYTES]) else ""


def looks_like_html(data: bytes) -> bool:
    return _HTML_START.match(data.removeprefix(b"\xef\xbb\xbf"), 0, SNIFFED_BYTES) is not None


def looks_binary(data: bytes) -> bool:
    return not data.startswith(_BOMS) and _BINARY_BYTE.search(data, 0, SNIFFED_BYTES) is not None


def is_xml(media_type: str) -> bool:
    return media_type in XML_TYPES or media_type.endswith("+xml")


def xml_root(data: bytes) -> str:
    """Return the name of the first element in the first KiB, lower-case and without its prefix."""
    # UTF-16 reads as ASCII once its zeros are gone, which is all that a name needs.
    start = re.sub(rb"<!--.*?(?:-->|\Z)|<[?!][^>]*+>", b"", data[:SNIFFED_BYTES].replace(b"\0", b""), flags=re.DOTALL)
    match = _XML_ROOT.search(start)
    return match.group(1).decode("ascii").lower() if match else ""


def effective_type(declared: MediaType | None, data: bytes) -> str:
    """Return the type to treat an answer as, from its declared type and its first bytes."""
    claim = declared.essence if declared else ""
    start = data[:SNIFFED_BYTES]
    if not start:
        return claim
    if claim in _UNKNOWN:
        return _sniff(start)
    # The usual case first: nearly all answers are pages that say so.
    if claim == HTML and looks_like_html(start):
        return HTML
    proof = signature(start)
    is_text = claim.startswith("text/") or is_xml(claim) or claim in {"application/json", "application/javascript"}
    if proof:
        # A signature overrules text, octet-stream and other pictures; a specific claim (an Office file is a zip) stays.
        return proof if is_text or claim == BINARY or claim.startswith("image/") else claim
    if claim == HTML and (feed := _feed_or_sitemap(start)):
        return feed
    if is_text:
        wide = declared is not None and declared.charset.lower().startswith(("utf-16", "unicode", "ucs-2"))
        # UTF-16 is full of zero bytes and is text all the same. Chance hardly ever makes a tag.
        if (
            looks_binary(start)
            and not wide
            and not (looks_like_html(start) or (claim == HTML and _HTML_TAG.search(start)))
        ):
            return BINARY
        return claim
    # An error page sent under the name of the missing picture or document.
    return HTML if claim != BINARY and looks_like_html(start) else claim


def _feed_or_sitemap(start: bytes) -> str:
    """Return the type of a feed or sitemap that is sent as a page."""
    if looks_like_html(start) or not start.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"<"):
        return ""
    return _ROOT_TYPES.get(xml_root(start), "")


def _sniff(start: bytes) -> str:
    if looks_like_html(start):
        return HTML
    if _XML_START.match(start):
        return "text/xml"
    return signature(start) or (BINARY if looks_binary(start) else "text/plain")
