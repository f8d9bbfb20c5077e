"""Addresses of single records of the archive, signed: `/raw/{signed}`.

Whoever has one may read that record, and nothing else, for ten minutes, signed in or not. A copy of a foreign page is
shown from such an address, so that nothing it makes its reader's browser ask for carries the reader's rights.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from dataclasses import astuple, dataclass

from teia.web import limits
from teia.web.site import Site

SECRET = "raw"  # noqa: S105  # the name of the key, not the key
KINDS = frozenset({"page", "picture", "style", "file", "record"})
MAX_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class Place:
    """A record of a collection's archive, and as what it is wanted."""

    kind: str
    collection: str
    cell: int
    file: str
    offset: int


class Signer:
    """Signs and checks addresses of one site."""

    def __init__(self, site: Site) -> None:
        self._key = site.accounts.secret(SECRET)
        self._clock = site.clock

    def address(self, place: Place) -> str:
        """The address of a record, good from now on for a while."""
        until_s = int(self._clock.now_s() + limits.RAW_S)
        plain = _text(json.dumps([until_s, *astuple(place)], separators=(",", ":")).encode())
        return f"/raw/{plain}.{self._signature(plain)}"

    def place(self, signed: str) -> Place | None:
        """What an address is for; None if we did not sign it, or too long ago."""
        plain, _, signature = signed[:MAX_CHARS].partition(".")
        if not hmac.compare_digest(self._signature(plain).encode(), signature.encode("utf-8", "replace")):
            return None
        try:
            until_s, kind, collection, cell, file, offset = json.loads(_octets(plain))
        except (ValueError, binascii.Error):
            return None
        if self._clock.now_s() > until_s or kind not in KINDS:
            return None
        return Place(kind, collection, cell, file, offset)

    def _signature(self, plain: str) -> str:
        return _text(hmac.digest(self._key, plain.encode("utf-8", "replace"), hashlib.sha256))


def _text(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()


def _octets(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
