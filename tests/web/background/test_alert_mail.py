"""E-mail about alerts, to a mail server on a socket."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from email import message_from_bytes, policy
from email.message import EmailMessage

import pytest

from teia.collections.settings import change
from teia.records import Edit, Operator
from teia.views.alerts import Alert
from teia.web.background import alert_messages
from teia.web.background.alert_messages import AlertMessenger
from tests.web.conftest import Web


class MailServer(socketserver.ThreadingTCPServer):
    """A server of SMTP (RFC 5321) that keeps what it is given, or refuses it."""

    allow_reuse_address = daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Conversation)
        self.received: list[tuple[list[str], EmailMessage]] = []
        self.is_full = False

    @property
    def address(self) -> str:
        return "{}:{}".format(*self.server_address)


class Conversation(socketserver.StreamRequestHandler):
    server: MailServer

    def handle(self) -> None:
        recipients: list[str] = []
        self.wfile.write(b"220 mail.test\r\n")
        for line in self.rfile:
            word = line.split(b" ", 1)[0].strip().upper()
            if word == b"RCPT":
                recipients.append(line.decode().partition("<")[2].partition(">")[0])
            if word == b"DATA" and not self.server.is_full:
                self.wfile.write(b"354 go ahead\r\n")
                text = b"".join(iter(self.rfile.readline, b".\r\n"))
                found = message_from_bytes(text, policy=policy.default)
                assert isinstance(found, EmailMessage)
                self.server.received.append((recipients, found))
            refuses = word == b"DATA" and self.server.is_full
            self.wfile.write(b"452 no room\r\n" if refuses else b"221 bye\r\n" if word == b"QUIT" else b"250 ok\r\n")
            if word == b"QUIT":
                return


@pytest.fixture
def server() -> Iterator[MailServer]:
    with MailServer() as found:
        thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def test_a_new_alert_is_mailed_once_and_again_when_it_returns(
    web: Web, server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    alerts = [
        Alert("no_host", "no address was found for the host exmaple.test\r\nBcc: all@b.test", 85.0, "exmaple.test")
    ]
    monkeypatch.setattr(alert_messages, "open_alerts", lambda *_: list(alerts))
    root, clock = web.installation.root, web.installation.clock
    mailer = AlertMessenger(web.installation, "https://teia.example.org/")
    assert mailer.step() == 0, "nobody wants to be told"
    edits = [Edit("alerts.email", Operator.ADD, each) for each in ("ana@a.test", "rui@a.test")]
    change(root, "main", [*edits, Edit("alerts.smtp", Operator.SET, server.address)], clock)
    assert (mailer.step(), mailer.step()) == (1, 0)
    ((recipients, message),) = server.received
    assert recipients == ["ana@a.test", "rui@a.test"]
    assert message["subject"].strip() == "teia: main: no address was found for the host exmaple.test Bcc: all@b.test"
    assert message["bcc"] is None
    assert "Open them: https://teia.example.org/c/main#needs" in message.get_content()
    assert AlertMessenger(web.installation, "").step() == 0, "another server of the folder knows what was sent"
    alerts.append(Alert("disk", "6.0% of the disk is free; fetching pauses at 5.0%", 80.0))
    assert mailer.step() == 1
    assert "exmaple" not in server.received[1][1].get_content(), "only what is new"
    solved = alerts.pop(0)
    assert mailer.step() == 0
    alerts.append(solved)
    assert mailer.step() == 1
    assert "exmaple" in server.received[2][1].get_content()


def test_a_message_that_is_refused_is_sent_later(web: Web, server: MailServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alert_messages, "open_alerts", lambda *_: [Alert("disk", "the disk is full", 80.0)])
    mailer = AlertMessenger(web.installation, "http://127.0.0.1:8700")
    edits = [Edit("alerts.email", Operator.ADD, "ana@a.test"), Edit("alerts.smtp", Operator.SET, server.address)]
    change(web.installation.root, "main", edits, web.installation.clock)
    server.is_full = True
    assert mailer.step() == 0
    server.is_full = False
    assert mailer.step() == 0, "not at once"
    assert 50 < mailer._back_off["main"].left_s <= alert_messages.FIRST_WAIT_S
    mailer._back_off["main"].reset()
    assert mailer.step() == 1
    assert len(server.received) == 1
