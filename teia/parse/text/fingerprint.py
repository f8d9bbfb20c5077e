"""A page's three fingerprints: the same bytes, the same text, nearly the same text (C6, F3).

`digest` is of the decoded payload, so it does not depend on the server's compression. `text_digest` is of the
normalised text and tells a real change from a new advertisement address or a moved tag. `simhash` finds mirrors; it
is of the text without the page's own address, so "there is nothing at /this" is the same page at every address.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from urllib.parse import unquote

from teia.lib.simhash import simhash
from teia.parse.text.normal import normal_octets, normalised
from teia.urls import split

MIN_ADDRESS_CHARS = 4
"""Least length of a part of an address; shorter ones occur in unrelated words."""


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """SHA-256 in hex, twice, and 64 bits without sign. The last two are empty and 0 where there is no text."""

    digest: str
    text_digest: str
    simhash: int


@dataclass(frozen=True, slots=True)
class KnownText:
    """Results of parsing the same body at another URL, which hold for an answer whose text has the same `outline`.

    It takes as long to compute them as to extract the text. `language` is of a page that declares one itself.
    """

    url: str
    language: str
    text_digest: str
    simhash: int
    outline: int


def fingerprints(
    payload: bytes, text: str, url: str = "", digest: str = "", known: KnownText | None = None
) -> Fingerprints:
    """Return the fingerprints of a page; `digest` is that of the payload, and `known` of the text, if there are any."""
    digest = digest or hashlib.sha256(payload).hexdigest()
    if known is not None and _has_same_simhash(text, url, known.url):
        return Fingerprints(digest, known.text_digest, known.simhash)
    plain = normal_octets(text) if text else b""
    if not plain:
        return Fingerprints(digest, "", 0)
    text_digest = hashlib.sha256(plain).hexdigest()
    return Fingerprints(digest, text_digest, simhash(_without_address(plain, url)))


def _has_same_simhash(text: str, url: str, other: str) -> bool:
    """Tell whether a text surely has the same simhash at two URLs: they end alike, and the text shows neither of them.

    False means that it may differ.
    """
    (_, host, _, path), (_, other_host, _, other_path) = split(url), split(other)
    names = {each.rstrip("/").rpartition("/")[2] for each in (path, other_path)}
    # Escapes and queries are left to `simhash`: few pages have them, and texts show them in several forms.
    if host != other_host or len(names) > 1 or not {"%", "?"}.isdisjoint(path + other_path):
        return False
    octets = text.encode("utf-8", "replace").lower()
    return path.lower().encode() not in octets and other_path.lower().encode() not in octets


def without_address(plain: str, url: str) -> str:
    """Remove a page's own address from its normalised text: the URL, its host, its path, its last segment."""
    return _without_address(plain.encode("utf-8", "surrogatepass"), url).decode("utf-8", "surrogatepass")


def _without_address(plain: bytes, url: str) -> bytes:
    for part in _address_parts(plain, url) if url else ():
        plain = plain.replace(part, b" ")
    return plain


def _address_parts(plain: bytes, url: str) -> list[bytes]:
    """Return the parts of a canonical URL that occur in a normalised text, the longest first.

    A text with the path contains its last segment, so on nearly every page two lookups are enough.
    """
    _, host, _, target = split(url)
    target = target.lower()
    # Texts show addresses with their letters, not with escapes.
    if "%" in target:
        target = normalised(unquote(target))
    path = target.partition("?")[0]
    name = path.rstrip("/").rpartition("/")[2]
    stem = name.rpartition(".")[0]
    shortest = next((each for each in (stem, name, path) if len(each) >= MIN_ADDRESS_CHARS), "")
    parts = [url.lower(), host] if host.encode() in plain else []
    if shortest and shortest.encode("utf-8", "replace") in plain:
        parts += {target, path, name, stem}
    longest_first = sorted((each for each in parts if len(each) >= MIN_ADDRESS_CHARS), key=len, reverse=True)
    return [each.encode("utf-8", "replace") for each in longest_first]
