"""Character encodings of texts by WHATWG's rules, so that teia reads a page as a browser would.

In order: a byte order mark, the charset of the header, the document's declaration in its first KiB (the prescan),
and at last a guess on at most 64 KiB. Only WHATWG labels count. Python alone would also accept `utf-7`, `idna`,
`zlib` or `unicode_escape`, codecs that no browser knows and that turn text into something else. The bytes
themselves are never changed; the archive keeps them as received.
"""

from __future__ import annotations

import codecs
import re
from functools import lru_cache

from resiliparse.parse.encoding import detect_encoding, map_encoding_to_html5

PRESCAN_BYTES = 1024
DETECTION_BYTES = 64 * 1024
MAX_LABEL_CHARS = 64
MAX_BEGINNINGS = 8
REPLACEMENT = "replacement"
USER_DEFINED = "x-user-defined"
DEFAULT = "windows-1252"

_CODECS = {
    # WHATWG name: the Python codec nearest to its decoder (browsers read the larger Microsoft sets).
    "utf-8": "utf-8", "ibm866": "cp866", "iso-8859-2": "iso8859-2", "iso-8859-3": "iso8859-3",
    "iso-8859-4": "iso8859-4", "iso-8859-5": "iso8859-5", "iso-8859-6": "iso8859-6", "iso-8859-7": "iso8859-7",
    "iso-8859-8": "iso8859-8", "iso-8859-10": "iso8859-10", "iso-8859-13": "iso8859-13", "iso-8859-14": "iso8859-14",
    "iso-8859-15": "iso8859-15", "iso-8859-16": "iso8859-16", "koi8-r": "koi8-r", "koi8-u": "koi8-u",
    "macintosh": "mac-roman", "windows-874": "cp874", "windows-1250": "cp1250", "windows-1251": "cp1251",
    "windows-1252": "cp1252", "windows-1253": "cp1253", "windows-1254": "cp1254", "windows-1255": "cp1255",
    "windows-1256": "cp1256", "windows-1257": "cp1257", "windows-1258": "cp1258", "x-mac-cyrillic": "mac-cyrillic",
    "gbk": "gb18030", "gb18030": "gb18030", "big5": "big5hkscs", "euc-jp": "euc_jp", "iso-2022-jp": "iso2022_jp",
    "shift_jis": "cp932", "euc-kr": "cp949", "utf-16be": "utf-16-be", "utf-16le": "utf-16-le",
}  # fmt: skip
_FROM_LIBRARY = {
    # The names by which resiliparse knows them, where they are not WHATWG's.
    "cp866": "ibm866", "iso8859-11": "windows-874", "mac-roman": "macintosh", "euc_jp": "euc-jp",
    "euc_kr": "euc-kr", "iso2022_jp": "iso-2022-jp", "utf-16-le": "utf-16le", "utf-16-be": "utf-16be",
    **{f"cp125{n}": f"windows-125{n}" for n in range(9)},
    **{f"iso8859-{n}": f"iso-8859-{n}" for n in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)},
}  # fmt: skip
_NOT_IN_LIBRARY = {
    "x-mac-cyrillic": "x-mac-cyrillic", "x-mac-ukrainian": "x-mac-cyrillic", "x-user-defined": USER_DEFINED,
    "replacement": REPLACEMENT, "csiso2022kr": REPLACEMENT, "hz-gb-2312": REPLACEMENT, "iso-2022-cn": REPLACEMENT,
    "iso-2022-cn-ext": REPLACEMENT, "iso-2022-kr": REPLACEMENT,
}  # fmt: skip
_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xfe\xff", "utf-16be"), (b"\xff\xfe", "utf-16le"))
_HIGH_TO_PRIVATE = {code: 0xF780 + code - 0x80 for code in range(0x80, 0x100)}


def encoding_of(label: str) -> str | None:
    """Return the WHATWG name of an encoding for one of its labels; None for a label not used on the web."""
    label = label.strip("\t\n\x0c\r ").lower()
    if not label or len(label) > MAX_LABEL_CHARS or not label.isascii():
        return None
    if label in _NOT_IN_LIBRARY:
        return _NOT_IN_LIBRARY[label]
    found: str | None = map_encoding_to_html5(label, False)
    return None if found is None else _FROM_LIBRARY.get(found.lower(), found.lower())


def determine_encoding(data: bytes, header_charset: str, *, is_html: bool) -> str:
    """Return the encoding of a text from all available evidence."""
    return declared_encoding(data, header_charset, is_html=is_html) or guess_encoding(data)


def declared_encoding(data: bytes, header_charset: str, *, is_html: bool) -> str | None:
    """Return the encoding named by the byte order mark, the header or the document itself."""
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return encoding
    named = encoding_of(header_charset) if header_charset else None
    # The header counts before the document; XML has no meta tags, only its declaration.
    if named or not is_html:
        return named or xml_encoding(data[:PRESCAN_BYTES])
    return prescan(data[:PRESCAN_BYTES]) or _late_charset(data)


def _late_charset(data: bytes) -> str | None:
    """Return the encoding of a meta tag past the first KiB: too late for the prescan, but a browser then restarts."""
    if _LATE_META.search(data, PRESCAN_BYTES, DETECTION_BYTES):
        return prescan(data[:DETECTION_BYTES])
    return None


def guess_encoding(data: bytes) -> str:
    """Return the likeliest encoding of undeclared bytes. Valid UTF-8 is nearly always meant to be UTF-8."""
    sample = data[:DETECTION_BYTES]
    try:
        # Not final: the sample may end inside a character.
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        found = encoding_of(detect_encoding(sample, DETECTION_BYTES) or "")
        # It is not UTF-8; the library returns that for "unknown".
        return DEFAULT if found in {None, "utf-8"} else str(found)
    return "utf-8"


def to_text(data: bytes, encoding: str) -> str:
    """Decode; invalid bytes become U+FFFD, and a byte order mark is removed. Never raises."""
    for mark, name in _BOMS:
        if name == encoding and data.startswith(mark):
            data = data[len(mark) :]
    if encoding == REPLACEMENT:
        return "\ufffd" if data else ""
    if encoding == USER_DEFINED:
        return data.decode("latin-1").translate(_HIGH_TO_PRIVATE)
    return data.decode(_CODECS.get(encoding, "utf-8"), "replace")


# ---- declarations in the document -----------------------------------------------------------------------------------

_XML_DECLARATION = re.compile(rb"<\?xml(?=\s)[^>]*?\sencoding\s*=\s*([\"'])([^\"'>]*)\1")
_LATE_META = re.compile(rb"<meta[\t\n\x0c\r /][^>]{0,512}?charset", re.IGNORECASE)
_META = re.compile(rb"<meta[\t\n\x0c\r /]", re.IGNORECASE)
_TAG = re.compile(rb"</?[A-Za-z][^\t\n\x0c\r >]*+")
_ATTRIBUTE = re.compile(
    rb"[\t\n\x0c\r /]*+(?:(?P<end>>)|(?P<name>[^\t\n\x0c\r />][^\t\n\x0c\r />=]*+)"
    rb"(?:[\t\n\x0c\r ]*+=[\t\n\x0c\r ]*+"
    rb"(?:\"(?P<double>[^\"]*+)\"|'(?P<single>[^']*+)'|(?P<bare>(?![\"'])[^\t\n\x0c\r >]*+(?=[\t\n\x0c\r >])))"
    rb"|(?=[\t\n\x0c\r />])(?![\t\n\x0c\r ]*+(?:=|\Z))))"
)
"""One attribute, or the end of the tag. No match: the bytes end inside the tag, and nothing in it counts."""

_CHARSET_IN_CONTENT = re.compile(
    rb"charset[\t\n\x0c\r ]*=[\t\n\x0c\r ]*(?:\"([^\"]*)\"|'([^']*)'|([^\"'\t\n\x0c\r ;][^\t\n\x0c\r ;]*))",
    re.IGNORECASE,
)


@lru_cache(maxsize=1)
def _cached_beginnings() -> list[tuple[bytes, str]]:
    """Return the cached beginnings of recent pages, up to their encoding's name; those of a site begin alike."""
    return []


def prescan(data: bytes) -> str | None:
    """Look for a charset in the first bytes of a page without parsing it (HTML standard, 13.2.3.2)."""
    if data.startswith(b"<\0?\0x\0"):
        return "utf-16le"
    if data.startswith(b"\0<\0?\0x"):
        return "utf-16be"
    known = _cached_beginnings()
    for beginning, encoding in known:
        if data.startswith(beginning):
            return encoding
    position = 0
    while (position := data.find(b"<", position)) >= 0:
        if data.startswith(b"<!--", position):
            end = data.find(b"-->", position + 2)
            position = end + 3 if end >= 0 else len(data)
        elif _META.match(data, position):
            found, position = _meta_charset(data, position + 5)
            if found:
                # Keyed by the bytes up to the end of the tag: all that the result depends on.
                known.insert(0, (data[:position], found))
                del known[MAX_BEGINNINGS:]
                return found
        elif tag := _TAG.match(data, position):
            position = _read_attributes(data, tag.end(), {})
        elif data[position + 1 : position + 2] in {b"!", b"/", b"?"}:
            end = data.find(b">", position)
            position = end + 1 if end >= 0 else len(data)
        else:
            position += 1
    return xml_encoding(data)


def xml_encoding(data: bytes) -> str | None:
    """Return the encoding of an XML declaration; a declaration readable as ASCII cannot be UTF-16."""
    match = _XML_DECLARATION.match(data)
    found = encoding_of(match.group(2).decode("latin-1")) if match else None
    return "utf-8" if found in {"utf-16le", "utf-16be"} else found


def _meta_charset(data: bytes, position: int) -> tuple[str | None, int]:
    """Read the attributes of a meta tag; return the encoding it declares and the end of the tag."""
    attributes: dict[bytes, bytes] = {}
    position = _read_attributes(data, position, attributes)
    if position >= len(data) + 1:
        return None, position
    charset: str | None = None
    for name, value in attributes.items():
        if name == b"charset":
            charset = encoding_of(value.decode("latin-1"))
            break
        if name == b"content" and attributes.get(b"http-equiv") == b"content-type":
            charset = charset or _from_content(value)
    # The prescan read the tag as ASCII, so the page cannot be UTF-16 (HTML standard, 13.2.3.2).
    return {"utf-16be": "utf-8", "utf-16le": "utf-8", USER_DEFINED: DEFAULT}.get(charset or "", charset), position


def _from_content(value: bytes) -> str | None:
    match = _CHARSET_IN_CONTENT.search(value)
    if match is None:
        return None
    label = next(group for group in match.groups() if group is not None)
    return encoding_of(label.decode("latin-1"))


def _read_attributes(data: bytes, position: int, attributes: dict[bytes, bytes]) -> int:
    """Collect attributes in lower case, the first of each name; return the end of the tag, or past the data."""
    while (match := _ATTRIBUTE.match(data, position)) is not None:
        position = match.end()
        if match["end"]:
            return position
        value = match["double"] or match["single"] or match["bare"] or b""
        attributes.setdefault(match["name"].lower(), value.lower())
    return len(data) + 1
