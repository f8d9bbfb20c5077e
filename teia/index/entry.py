"""One page for the index: the parse child's result, as bytes.

The child encodes an entry. The bytes go through the hand-over to the indexer, which packs them: the index stores every
page once more for snippets. They are checked against these types when they are read: a parse child has just read a
hostile page.
"""

from __future__ import annotations

import msgspec
from isal import isal_zlib

from teia.lib.undecodable import UNDECODABLE

DIGEST_BYTES = 8
MAX_TEXT_CHARS = 1_000_000
"""More of one page is not indexed; the archive has it all."""

MAX_ENTRY_BYTES = 64 << 20
"""Octets of an entry that is inflated: a few from a hostile page, or from another node, must not fill the memory."""

_LEVEL = 1
"""Level 3 takes half as long again for 4% fewer octets."""

_IsalError: type[Exception] = isal_zlib.error  # type: ignore[assignment]  # isal's stub calls the class an instance


class Anchor(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A link of a page: its target's key and host, and its anchor text."""

    key: int
    host: str
    text: str


class IndexEntry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A page as the index takes it.

    `key` is that of its URL (`urls.key_of`), `digest` the beginning of its payload's. `date_s` is when the page says it
    was published or changed, or 0; `visited_s` when it was last seen so. `text_digest` is the first eight octets of the
    digest of the normalised text, as a signed number, and `simhash` likewise: equal or alike texts are shown as one
    result. `links` are the pages it leads to, each once, with the words on the first link that has some; those to
    itself left out. `anchor_count` is the number of anchors to other pages, each repetition counted.
    """

    url: str
    key: int
    host: str
    digest: bytes
    title: str
    headings: tuple[str, ...]
    text: str
    description: str
    language: str
    media_type: str
    date_s: int
    visited_s: int
    text_digest: int
    simhash: int
    links: tuple[Anchor, ...] = ()
    anchor_count: int = 0


class PackedEntry:
    """An entry in the forms in which it is needed: each is made of another one when it is first asked for."""

    __slots__ = ("_encoded", "_entry", "_packed")

    def __init__(self, entry: IndexEntry | None = None, packed: bytes = b"", *, encoded: bytes = b"") -> None:
        """Take an entry, its packed bytes (those that the index stores) or its encoded ones, or several of them."""
        self._entry, self._packed, self._encoded = entry, packed, encoded

    @property
    def entry(self) -> IndexEntry:
        if self._entry is None:
            self._entry = decode_entry(self.encoded)
        return self._entry

    @property
    def encoded(self) -> bytes:
        if self._encoded:
            return self._encoded
        return inflate_entry(self._packed) if self._packed else encode_entry(self.entry)

    @property
    def packed(self) -> bytes:
        if not self._packed:
            self._packed, self._encoded = isal_zlib.compress(self.encoded, _LEVEL), b""
        return self._packed


encode_entry = msgspec.msgpack.Encoder().encode
decode_entry = msgspec.msgpack.Decoder(IndexEntry).decode


def pack_entry(entry: IndexEntry) -> bytes:
    data: bytes = isal_zlib.compress(encode_entry(entry), _LEVEL)
    return data


def unpack_entry(data: bytes) -> IndexEntry:
    return decode_entry(inflate_entry(data))


def open_packed(packed: bytes) -> PackedEntry | None:
    """Return the entry in some bytes beside them; None if they are none, such as those of an older version."""
    try:
        return PackedEntry(unpack_entry(packed), packed)
    except (_IsalError, *UNDECODABLE):
        return None


def open_encoded(encoded: bytes) -> PackedEntry | None:
    """Return the entry in the bytes of `encode_entry`; None if there is none, or one that is too large."""
    try:
        entry = decode_entry(encoded)
    except UNDECODABLE:
        return None
    return PackedEntry(entry, encoded=encoded) if len(encoded) <= MAX_ENTRY_BYTES else None


def inflate_entry(data: bytes) -> bytes:
    """Decompress an entry; the result is still encoded. Raise an error of isal if it is damaged or too large."""
    inflater = isal_zlib.decompressobj()
    octets: bytes = inflater.decompress(data, MAX_ENTRY_BYTES)
    if not inflater.eof:
        raise _IsalError(f"an entry is cut off, or has more than {MAX_ENTRY_BYTES:,} octets")
    return octets
