"""Cheap signs that a page's scripts may show more than the page as received (docs/rendering.md).

Most pages have scripts, and scripts of most pages add nothing. So these signs only name the scripts, by a hash that is
the same for pages made alike, and tell whether a page is nearly empty without them. The crawler learns the rest by
trials. All of it is one search through the octets of a page that has scripts, and a few more in pages with little text.
Tags in capitals are not looked for.
"""

from __future__ import annotations

import zlib

EMPTY_CHARS, LITTLE_CHARS = 200, 2_000
"""Length of the text below which a page with scripts is nearly empty, and below which it may be."""

MAX_SCRIPTS, MAX_CODE = 24, 400

_ROOTS = (
    b'id="root"></div>',
    b'id="app"></div>',
    b'id="__next"></div>',
    b'id="__nuxt"></div>',
    b"<app-root></app-root>",
)
_DATA = (b"json", b"template", b"text/x-", b"speculationrules")
_NO_CODE = bytes(octet for octet in range(256) if not chr(octet).isalpha() or octet > 0x7F)
"""Octets that do not count in the code of a script: digits differ from page to page."""


def script_hash(payload: bytes) -> int:
    """Return a hash of the scripts of a page, 0 if it has none; texts and numbers in them do not count."""
    found, at, code_hash = 0, payload.find(b"<script"), 0
    while at >= 0 and found < MAX_SCRIPTS:
        end = payload.find(b">", at, at + 4_096)
        if end < 0:
            break
        attributes = payload[at + 7 : end].lower()
        begins = attributes.find(b"src")
        if begins >= 0 and b"=" in attributes:
            code = attributes[begins:].partition(b"=")[2].partition(b"?")[0][:200]
        elif any(kind in attributes for kind in _DATA):
            code = b""
        else:
            code = _skeleton(payload[end + 1 : end + 1 + MAX_CODE].partition(b"</script")[0])
        if code:
            found += 1
            code_hash = zlib.crc32(code.translate(None, _NO_CODE), code_hash)
        at = payload.find(b"<script", end)
    return code_hash + 1 if found else 0


def _skeleton(code: bytes) -> bytes:
    """Return code without its texts in quotes."""
    return b" ".join(code.replace(b"'", b'"').replace(b"`", b'"').split(b'"')[::2])


def is_nearly_empty(payload: bytes, text_chars: int) -> bool:
    """Tell whether a page with scripts has hardly any text, an empty root element, or asks for scripts."""
    if text_chars < EMPTY_CHARS:
        return True
    if text_chars > LITTLE_CHARS:
        return False
    if any(root in payload for root in _ROOTS):
        return True
    at = payload.find(b"<noscript")
    while at >= 0:
        notice = payload[at : at + 400].partition(b"</noscript")[0].lower()
        if b"javascript" in notice and (b"enable" in notice or b"require" in notice or b"need" in notice):
            return True
        at = payload.find(b"<noscript", at + 9)
    return False
