"""Webhooks: what is posted to somebody's address, and how they know that it is from us.

The headers are those of the Standard Webhooks convention, which libraries of many languages can check:

    webhook-id          the notice; the same when it comes again, so that who has it can pass it over
    webhook-timestamp   when it was sent, in Unix seconds; an old one may be somebody who repeats what they overheard
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
"""By this a receiver says that it wants to hear no more of this; tries again would be in vain."""


def new_secret() -> str:
    return PREFIX + base64.b64encode(token_bytes(SECRET_BYTES)).decode()


def signature(secret: str, identity: str, sent_s: int, body: bytes) -> str:
    """The value of `webhook-signature`."""
    key = base64.b64decode(secret.removeprefix(PREFIX))
    signed = b"%b.%d.%b" % (identity.encode(), sent_s, body)
    return "v1," + base64.b64encode(hmac.new(key, signed, sha256).digest()).decode()


def headers(secret: str, identity: str, sent_s: int, body: bytes) -> tuple[tuple[str, str], ...]:
    """What a message is sent with."""
    return (
        ("webhook-id", identity),
        ("webhook-timestamp", str(sent_s)),
        ("webhook-signature", signature(secret, identity, sent_s, body)),
    )


def message(kind: str, time: str, data: Mapping[str, Any]) -> bytes:
    """The body of a message: its type (`page.changed`, `search.results`), when it was noticed, and what is told."""
    return json.dumps({"type": kind, "timestamp": time, "data": data}, allow_nan=False).encode()
