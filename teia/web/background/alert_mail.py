"""E-mail about new alerts: `alerts.email` of a collection receives one message when alerts begin.

An alert is sent once. The file `alerts.sent.json` of the root lists those that were sent and are still open; an alert
that was solved leaves it, so that its return is sent again. A message that the mail server does not accept is tried
again, later each time.
"""

from __future__ import annotations

import json
import logging
import smtplib
from collections.abc import Sequence
from contextlib import suppress
from email.message import EmailMessage
from threading import Event, Thread

from teia.config.sections import AlertSettings
from teia.durable import write_atomically
from teia.errors import TeiaError
from teia.lib.child_process import BackOff
from teia.views.alerts import Alert, alert_subject
from teia.web.pages.collection.monitor import account_of, open_alerts, table_of
from teia.web.server.installation import Installation

logger = logging.getLogger(__name__)

POLL_S = 10.0
TIMEOUT_S = 20.0
FIRST_WAIT_S, LONGEST_WAIT_S = 60.0, 3_600.0
"""Wait after a mail server that did not accept a message; it doubles."""

COUNT_S = 5.0
"""Longest wait for the table of hosts, whose alerts are found at a later look otherwise."""

FILE = "alerts.sent.json"
DEFAULT_PORT = 25


class AlertMailer:
    """Sends e-mail about the alerts of all collections of an installation; `address` is that of its web interface."""

    def __init__(self, installation: Installation, address: str) -> None:
        self._installation, self._address = installation, address.rstrip("/")
        self._path = installation.root.path / FILE
        self._back_off = BackOff(installation.clock.ticks_s, FIRST_WAIT_S, LONGEST_WAIT_S)
        self._ending = Event()
        self._thread = Thread(target=self._run, name="alert mail", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        self._thread.join(TIMEOUT_S)

    def _run(self) -> None:
        while not self._ending.wait(POLL_S):
            try:
                self.step()
            except Exception:  # the next look may succeed
                logger.exception("alerts were not mailed")

    def step(self) -> int:
        """Send what is new, unless a failure is too recent; return the number of messages."""
        if self._back_off.left_s:
            return 0
        return sum(self._mail_collection(name) for name in self._installation.names())

    def _mail_collection(self, name: str) -> int:
        try:
            settings = self._installation.config(name).alerts
            if not settings.email:
                return 0
            table_of(self._installation, name, COUNT_S)
            alerts = open_alerts(self._installation, name, account_of(self._installation, name)[0])
        except (TeiaError, OSError):  # the page of the collection shows the problem
            return 0
        sent = self._read_sent()
        known = set(sent.get(name, ()))
        new = [alert for alert in alerts if _key(alert) not in known]
        still_open = [_key(alert) for alert in alerts if _key(alert) in known]
        if new:
            self._back_off.begin()
            try:
                send_mail(settings, compose(settings, name, new, f"{self._address}/c/{name}#needs"))
            except (OSError, smtplib.SMTPException) as error:
                logger.warning("%s: no mail about %d alerts: %s", name, len(new), error)
                self._back_off.fail()
                return 0
            self._back_off.reset()
        if new or len(still_open) < len(known):
            sent[name] = still_open + [_key(alert) for alert in new]
            write_atomically(self._path, json.dumps(sent, ensure_ascii=False).encode())
        return bool(new)

    def _read_sent(self) -> dict[str, list[str]]:
        with suppress(OSError, ValueError):
            found: dict[str, list[str]] = json.loads(self._path.read_bytes())
            return found
        return {}


def _key(alert: Alert) -> str:
    return f"{alert.kind} {alert_subject(alert)}"


def compose(settings: AlertSettings, collection: str, alerts: Sequence[Alert], address: str) -> EmailMessage:
    """Make the message about some alerts, with the address of the page that has their actions."""
    message = EmailMessage()
    more = f" (and {len(alerts) - 1} more)" if len(alerts) > 1 else ""
    # A header is one line, whatever a host sent.
    message["Subject"] = " ".join(f"teia: {collection}: {alerts[0].message}{more}".split())
    message["From"], message["To"] = settings.sender, ", ".join(settings.email)
    # Programs that answer messages automatically leave those with this header alone.
    message["Auto-Submitted"] = "auto-generated"
    lines = [f"- {alert.message}" for alert in alerts]
    message.set_content("\n".join([f"Alerts of {collection}:", "", *lines, "", f"Open them: {address}", ""]))
    return message


def send_mail(settings: AlertSettings, message: EmailMessage) -> None:
    """Give a message to the mail server; OSError or SMTPException if it does not take it."""
    host, _, port = settings.smtp.rpartition(":") if ":" in settings.smtp else (settings.smtp, "", "")
    with smtplib.SMTP(host.strip("[]"), int(port) if port.isdigit() else DEFAULT_PORT, timeout=TIMEOUT_S) as server:
        server.ehlo()
        if server.has_extn("starttls"):
            server.starttls()
        server.send_message(message)
