"""Signed addresses of single archive records: `/raw/{signed}`.

A client with such an address may read that record, and nothing else, for ten minutes, signed in or not. A capture of a
foreign page is shown from such an address, so that the requests it triggers in the browser carry none of the reader's
rights.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from dataclasses import astuple, dataclass

from teia.web import limits
from teia.web.server.installation import Installation

SECRET = "raw"  # noqa: S105  # the name of the key, not the key
KINDS = frozenset({"page", "picture", "style", "file", "record"})
MAX_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class SignedRecord:
    """A record of a collection's archive, and its use."""

    kind: str
    collection: str
    cell: int
    file: str
    offset: int


class Signer:
    """Signer and verifier of addresses of one site."""

    def __init__(self, site: Installation) -> None:
        self._key = site.accounts.signing_key(SECRET)
        self._clock = site.clock

    def sign(self, record: SignedRecord) -> str:
        """Return the signed address of a record, valid for `limits.RAW_S`."""
        # The end of its validity is part of the signed text, so a client cannot extend it.
        until_s = int(self._clock.now_s() + limits.RAW_S)
        payload = _encode(json.dumps([until_s, *astuple(record)], separators=(",", ":")).encode())
        return f"/raw/{payload}.{self._signature(payload)}"

    def verify(self, signed: str) -> SignedRecord | None:
        """Return the record of an address; None if its signature is invalid or it has expired."""
        payload, _, signature = signed[:MAX_CHARS].partition(".")
        # The signature is checked before anything is parsed.
        if not hmac.compare_digest(self._signature(payload).encode(), signature.encode("utf-8", "replace")):
            return None
        try:
            until_s, kind, collection, cell, file, offset = json.loads(_decode(payload))
        except (ValueError, binascii.Error):
            return None
        if self._clock.now_s() > until_s or kind not in KINDS:
            return None
        return SignedRecord(kind, collection, cell, file, offset)

    def _signature(self, payload: str) -> str:
        return _encode(hmac.digest(self._key, payload.encode("utf-8", "replace"), hashlib.sha256))


def _encode(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
