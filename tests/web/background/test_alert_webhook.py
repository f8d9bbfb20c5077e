"""Alerts posted to a webhook, a server on a socket."""

from __future__ import annotations

import json
import logging
from dataclasses import replace

import pytest

from teia.collections.settings import change
from teia.records import Edit, Operator
from teia.views.alerts import Alert
from teia.web.access.accounts import ChangeLine
from teia.web.background import alert_messages
from teia.web.background.alert_messages import AlertMessenger
from teia.web.collection_form import redact_changes
from tests.fetch.receiver import Receiver, Reply
from tests.web.conftest import Web

OTHER = "127.78.0.8"
"""An address of this machine that the collection may not reach."""

ALERT = Alert("no_host", "no address was found for the host exmaple.test", 85.0, "exmaple.test")


def test_a_new_alert_is_posted_once_and_only_where_the_guard_allows(
    web: Web, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(alert_messages, "open_alerts", lambda *_: [ALERT])
    root, clock = web.installation.root, web.installation.clock
    messenger = AlertMessenger(web.installation, "https://teia.example.org/")
    with Receiver(address=OTHER) as receiver:
        change(root, "main", [Edit("alerts.webhook", Operator.SET, receiver.url)], clock)
        with caplog.at_level(logging.WARNING):
            assert messenger.step() == 0, "an address of this machine"
        assert receiver.received == []
        assert "alerts were not accepted" in caplog.text
        assert OTHER in caplog.text
        assert "/hook" not in caplog.text, "the path may be a secret"
        change(root, "main", [Edit("fetch.allow_nets", Operator.ADD, f"{OTHER}/32")], clock)
        messenger._back_off["webhook main"].reset()
        assert (messenger.step(), messenger.step()) == (1, 0)
        (got,) = receiver.received
    body = json.loads(got.body)
    assert (got.method, body["type"], body["data"]["collection"]) == ("POST", "alerts.opened", "main")
    assert body["data"]["alerts"] == [
        {"kind": "no_host", "about": "exmaple.test", "host": "exmaple.test", "message": ALERT.message}
    ]
    assert body["text"].splitlines() == [f"teia: main: {ALERT.message}", "https://teia.example.org/c/main#needs"]
    assert AlertMessenger(web.installation, "").step() == 0, "another server of the folder knows what was sent"


def test_a_refused_message_is_posted_later(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alert_messages, "open_alerts", lambda *_: [ALERT])
    messenger = AlertMessenger(web.installation, "http://127.0.0.1:8700")
    with Receiver(lambda _: Reply(500)) as receiver:
        edit = Edit("alerts.webhook", Operator.SET, receiver.url)
        change(web.installation.root, "main", [edit], web.installation.clock)
        assert (messenger.step(), messenger.step()) == (0, 0)
        assert len(receiver.received) == 1, "not again at once"
        receiver.behave = lambda _: Reply()
        messenger._back_off["webhook main"].reset()
        assert messenger.step() == 1


def test_a_webhook_that_fails_does_not_delay_those_of_other_collections(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All webhooks had one back-off, so that one broken address silenced every collection behind it."""
    monkeypatch.setattr(alert_messages, "open_alerts", lambda *_: [ALERT])
    monkeypatch.setattr(web.installation, "names", lambda: ["main", "other"])
    config = web.installation.config("main")
    with Receiver(lambda _: Reply(500)) as broken, Receiver() as sound:
        urls = {"main": broken.url, "other": sound.url}
        configs = {name: replace(config, alerts=replace(config.alerts, webhook=url)) for name, url in urls.items()}
        monkeypatch.setattr(web.installation, "config", configs.__getitem__)
        monkeypatch.setattr(alert_messages, "table_of", lambda *_: None)
        monkeypatch.setattr(alert_messages, "account_of", lambda *_: ({}, None))
        messenger = AlertMessenger(web.installation, "")
        assert messenger.step() == 1
        assert (len(broken.received), len(sound.received)) == (1, 1)


def test_the_record_of_a_change_has_no_address_of_a_webhook() -> None:
    line = ChangeLine("alerts.webhook", '""', '"https://chat.example.org/hooks/secret"')
    other = ChangeLine("alerts.email", '""', '"ana@example.org"')
    assert redact_changes([line, other]) == [ChangeLine("alerts.webhook", "", "https://chat.example.org/…"), other]
