"""E-mail about new alerts, to the addresses of `alerts.email`, by the mail server `alerts.smtp`."""

from __future__ import annotations

import smtplib
from collections.abc import Sequence
from email.message import EmailMessage

from teia.clock import Clock
from teia.config.sections import AlertSettings, Config
from teia.views.alerts import Alert

TIMEOUT_S = 20.0
DEFAULT_PORT = 25


def mail_alerts(config: Config, clock: Clock, collection: str, alerts: Sequence[Alert], address: str) -> str:  # noqa: ARG001  # as all channels
    """Send one message about some alerts; return why the mail server did not accept it."""
    try:
        send_mail(config.alerts, compose(config.alerts, collection, alerts, address))
    except (OSError, smtplib.SMTPException) as error:
        return f"{error}"  # of the library or the system: it has no message of ours
    return ""


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
