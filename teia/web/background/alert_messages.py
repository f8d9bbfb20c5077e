"""Messages about new alerts of collections: by e-mail (alert_mail.py) and to a webhook (alert_webhook.py).

An alert is sent once in each way. The file `alerts.sent.json` of the root lists those that were sent and are still
open; an alert that was solved leaves it, so that its return is sent again. A message that its receiver does not accept
is tried again, later each time.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Thread

from teia.clock import Clock
from teia.config.sections import AlertSettings, Config
from teia.durable import write_atomically
from teia.errors import TeiaError
from teia.lib.child_process import BackOff
from teia.views.alerts import Alert, alert_subject
from teia.web.background.alert_mail import mail_alerts
from teia.web.background.alert_webhook import post_alerts
from teia.web.parts.collection_state import account_of, open_alerts, table_of
from teia.web.server.installation import Installation

logger = logging.getLogger(__name__)

POLL_S = 10.0
STOP_S = 20.0
FIRST_WAIT_S, LONGEST_WAIT_S = 60.0, 3_600.0
"""Wait after a receiver that did not accept a message; it doubles."""

COUNT_S = 5.0
"""Longest wait for the table of hosts, whose alerts are found at a later look otherwise."""

FILE = "alerts.sent.json"


@dataclass(frozen=True, slots=True)
class Channel:
    """A way to send alerts. `prefix` marks its entries of the file; `send` returns why a message was not accepted."""

    prefix: str
    is_wanted: Callable[[AlertSettings], bool]
    send: Callable[[Config, Clock, str, Sequence[Alert], str], str]


CHANNELS = (
    Channel("", lambda settings: bool(settings.email), mail_alerts),
    Channel("webhook ", lambda settings: bool(settings.webhook), post_alerts),
)


class AlertMessenger:
    """Sends the alerts of all collections of an installation; `address` is that of its web interface."""

    def __init__(self, installation: Installation, address: str) -> None:
        self._installation, self._address = installation, address.rstrip("/")
        self._path = installation.root.path / FILE
        ticks_s = installation.clock.ticks_s
        # Collections have webhooks of their own: one that fails must not delay the others.
        self._back_off: defaultdict[str, BackOff] = defaultdict(lambda: BackOff(ticks_s, FIRST_WAIT_S, LONGEST_WAIT_S))
        self._ending = Event()
        self._thread = Thread(target=self._run, name="alert messages", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        self._thread.join(STOP_S)

    def _run(self) -> None:
        while not self._ending.wait(POLL_S):
            try:
                self.step()
            except Exception:  # the next look may succeed
                logger.exception("alerts were not sent")

    def step(self) -> int:
        """Send what is new, unless a failure is too recent; return the number of messages."""
        return sum(self._send_collection(name) for name in self._installation.names())

    def _send_collection(self, name: str) -> int:
        try:
            config = self._installation.config(name)
            channels = [each for each in CHANNELS if each.is_wanted(config.alerts)]
            if not channels:
                return 0
            table_of(self._installation, name, COUNT_S)
            alerts = open_alerts(self._installation, name, account_of(self._installation, name)[0])
        except (TeiaError, OSError):  # the page of the collection shows the problem
            return 0
        return sum(self._send(each, config, name, alerts) for each in channels)

    def _send(self, channel: Channel, config: Config, name: str, alerts: Sequence[Alert]) -> int:
        key = channel.prefix + name
        back_off = self._back_off[key]
        if back_off.left_s:
            return 0
        sent = self._read_sent()
        known = set(sent.get(key, ()))
        new = [alert for alert in alerts if _key(alert) not in known]
        still_open = [_key(alert) for alert in alerts if _key(alert) in known]
        if new:
            back_off.begin()
            address = f"{self._address}/c/{name}#needs"
            why = channel.send(config, self._installation.clock, name, new, address)
            if why:
                logger.warning("%s: %d alerts were not accepted: %s", key, len(new), why)
                back_off.fail()
                return 0
            back_off.reset()
        if new or len(still_open) < len(known):
            sent[key] = still_open + [_key(alert) for alert in new]
            write_atomically(self._path, json.dumps(sent, ensure_ascii=False).encode())
        return bool(new)

    def _read_sent(self) -> dict[str, list[str]]:
        with suppress(OSError, ValueError):
            found: dict[str, list[str]] = json.loads(self._path.read_bytes())
            return found
        return {}


def _key(alert: Alert) -> str:
    return f"{alert.kind} {alert_subject(alert)}"
