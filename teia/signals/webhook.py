"""Webhooks: messages to a subscriber's address, and the signature that proves their origin.

The headers are those of the Standard Webhooks convention, which libraries of many languages can check:

    webhook-id          the notice; the same in a repetition, so that the receiver can skip a duplicate
    webhook-timestamp   time of sending, in Unix seconds; an old one may be a replay by an eavesdropper
    webhook-signature   v1,BASE64 of HMAC-SHA-256 over `id.timestamp.body`, with the secret of the subscription

A secret is `whsec_` and the BASE64 of 24 to 64 bytes. It is shown once, and is in no log and no message.
"""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Mapping
from hashlib import sha256
from secrets import token_bytes
from typing import Any

PREFIX = "whsec_"
SECRET_BYTES = 32
MEDIA_TYPE = "application/json"

GONE = 410
"""Status by which a receiver declines all further messages; retries would be in vain."""


def new_secret() -> str:
    return PREFIX + base64.b64encode(token_bytes(SECRET_BYTES)).decode()


def signature(secret: str, identity: str, sent_s: int, body: bytes) -> str:
    """Return the value of `webhook-signature`."""
    key = base64.b64decode(secret.removeprefix(PREFIX))
    # The signature covers id and time, so that neither can be exchanged in a replay.
    signed = b"%b.%d.%b" % (identity.encode(), sent_s, body)
    return "v1," + base64.b64encode(hmac.new(key, signed, sha256).digest()).decode()


def headers(secret: str, identity: str, sent_s: int, body: bytes) -> tuple[tuple[str, str], ...]:
    """Return the headers of a message."""
    return (
        ("webhook-id", identity),
        ("webhook-timestamp", str(sent_s)),
        ("webhook-signature", signature(secret, identity, sent_s, body)),
    )


def message(kind: str, time: str, data: Mapping[str, Any]) -> bytes:
    """Return the body of a message: its type (`page.changed`, `search.results`), the time of the notice, its data."""
    return json.dumps({"type": kind, "timestamp": time, "data": data}, allow_nan=False).encode()
