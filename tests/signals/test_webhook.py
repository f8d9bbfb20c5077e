"""How a receiver knows that a message is from us."""

from __future__ import annotations

import base64
import json

from teia.signals.webhook import headers, message, new_secret, signature


def test_the_signature_is_the_one_of_the_convention() -> None:
    """The example of the Standard Webhooks specification, which its libraries are tested with too."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # of nobody
    body = b'{"test": 2432232314}'
    expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert signature(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body) == expected


def test_every_secret_is_another_and_long_enough() -> None:
    secrets = {new_secret() for _ in range(50)}
    assert len(secrets) == 50
    assert {len(base64.b64decode(each.removeprefix("whsec_"))) for each in secrets} == {32}


def test_another_body_time_or_id_has_another_signature() -> None:
    secret = new_secret()
    signed = {
        dict(headers(secret, identity, sent_s, body))["webhook-signature"]
        for identity, sent_s, body in (("a", 1, b"x"), ("a", 2, b"x"), ("a", 1, b"y"), ("b", 1, b"x"))
    }
    assert len(signed) == 4


def test_a_message_is_json_whatever_a_page_says() -> None:
    body = message("page.changed", "2026-01-01T00:00:00Z", {"title": "\ud800 <script> \u2028"})
    assert body.isascii()
    assert json.loads(body)["data"]["title"] == "\ud800 <script> \u2028"
