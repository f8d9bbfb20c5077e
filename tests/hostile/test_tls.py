"""Servers that speak TLS badly (entry 18): certificates that are over, old versions, handshakes that never end."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from teia.lab.hostile.server import WEB, HostileServer, page, sends
from tests.fetch.conftest import IMPATIENT, certificate, get  # noqa: F401  # a fixture

HELLO = {"/": sends(page(b"hello"), keep=True)}
AUTHORITY = """
[ca]
default_ca = own
[own]
database = {folder}/index.txt
serial = {folder}/serial
new_certs_dir = {folder}
default_md = sha256
policy = anything
x509_extensions = names
[anything]
commonName = supplied
[names]
subjectAltName = DNS:a.test
[req]
distinguished_name = subject
[subject]
"""


@pytest.fixture
def expired(tmp_path: Path, program: Callable[[str], str]) -> Path:
    """A folder with the key and the certificate of a.test, which ended in 2020."""
    (tmp_path / "ca.cnf").write_text(AUTHORITY.format(folder=tmp_path), "utf-8")
    (tmp_path / "index.txt").touch()
    (tmp_path / "serial").write_text("01", "utf-8")
    key, request, done = (str(tmp_path / name) for name in ("key.pem", "request.pem", "cert.pem"))
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key]
    config = ["-config", str(tmp_path / "ca.cnf")]
    dates = ["-startdate", "20200101000000Z", "-enddate", "20200201000000Z"]
    for words in (
        ["req", "-new", *new_key, "-subj", "/CN=a.test", "-out", request, *config],
        ["ca", "-batch", "-notext", "-selfsign", "-keyfile", key, "-in", request, "-out", done, *dates, *config],
    ):
        subprocess.run([program("openssl"), *words], check=True, capture_output=True, timeout=60)
    return tmp_path


def serving(folder: Path, *, newest: ssl.TLSVersion | None = None) -> HostileServer:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if newest is not None:
        context.set_ciphers("ALL:@SECLEVEL=0")  # or OpenSSL itself would not speak it
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, newest
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return HostileServer(HELLO, tls=context)


def test_a_certificate_that_is_over_is_refused_although_its_issuer_is_trusted(expired: Path) -> None:
    with serving(expired) as server:
        (fetched,) = get(server.url("/"), options={"ca_file": str(expired / "cert.pem")})
        assert fetched.outcome == "tls"
        assert server.log == []


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1:DeprecationWarning")
@pytest.mark.parametrize("newest", ["TLSv1", "TLSv1_1"])
def test_a_server_of_an_old_version_alone_is_refused(certificate: Path, newest: str) -> None:  # noqa: F811
    with serving(certificate, newest=ssl.TLSVersion[newest]) as server:
        (fetched,) = get(server.url("/"), options={"ca_file": str(certificate / "cert.pem")})
        assert fetched.outcome == "tls"
        assert server.log == []


@pytest.mark.heavy
@pytest.mark.parametrize("piece", [b"\x16", b"\x16\x03\x03\x3f\xff" + b"\0" * 200], ids=["octets", "records"])
def test_a_handshake_that_comes_in_drops_is_given_up(piece: bytes) -> None:
    """Each piece resets a time-out of silence; only one for the whole handshake ends it."""
    listener = socket.create_server((WEB[0], 0))

    def drip() -> None:
        connection, _ = listener.accept()
        with connection:
            try:
                for _ in range(100):
                    connection.sendall(piece)
                    time.sleep(0.1)  # the subject of the test
            except OSError:
                return

    server = threading.Thread(target=drip)
    server.start()
    try:
        (fetched,) = get(f"https://a.test:{listener.getsockname()[1]}/", options={"limits": IMPATIENT})
    finally:
        listener.close()
        server.join()
    assert fetched.outcome in {"timeout", "tls"}
    assert fetched.ended_s - fetched.started_s < IMPATIENT.connect_s + 3


@pytest.mark.parametrize("first", [b"HTTP/1.1 200 OK\r\n\r\n", b"\x15\x03\x01\x00\x02\x02\x46", b"\0" * 1000, b""])
def test_a_handshake_answered_with_something_else_is_a_tls_failure(first: bytes) -> None:
    listener = socket.create_server((WEB[0], 0))

    def speak() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(first)

    server = threading.Thread(target=speak)
    server.start()
    (fetched,) = get(f"https://a.test:{listener.getsockname()[1]}/", options={"limits": IMPATIENT})
    server.join()
    listener.close()
    assert fetched.outcome == "tls"


def test_a_chain_of_certificates_of_megabytes_is_refused_before_it_is_read_whole(
    certificate: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    one = (certificate / "cert.pem").read_text("ascii")
    (tmp_path / "cert.pem").write_text(one * 4_000, "ascii")
    (tmp_path / "key.pem").write_bytes((certificate / "key.pem").read_bytes())
    with serving(tmp_path) as server:
        (fetched,) = get(server.url("/"), options={"ca_file": str(certificate / "cert.pem")})
        assert fetched.outcome == "tls"
        assert server.log == []


@pytest.mark.heavy
def test_a_server_that_renegotiates_without_end_is_given_up(
    certificate: Path,  # noqa: F811
    program: Callable[[str], str],
) -> None:
    """A handshake within the connection is no octet of the answer, and resets no time-out of silence."""
    with socket.create_server((WEB[0], 0)) as free:
        port = free.getsockname()[1]
    files = ["-cert", str(certificate / "cert.pem"), "-key", str(certificate / "key.pem")]
    command = [program("openssl"), "s_server", "-tls1_2", "-accept", f"{WEB[0]}:{port}", *files]
    ended = threading.Event()

    def renegotiate(begin: IO[bytes], said: IO[bytes]) -> None:
        while b"GET / " not in said.readline():  # the request is printed when it has come
            pass
        while not ended.wait(0.05):
            begin.write(b"r\n")
            begin.flush()

    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert b"ACCEPT" in process.stdout.readline() + process.stdout.readline()
            server = threading.Thread(target=renegotiate, args=(process.stdin, process.stdout))
            server.start()
            options = {"ca_file": str(certificate / "cert.pem"), "limits": IMPATIENT}
            (fetched,) = get(f"https://a.test:{port}/", options=options)
            ended.set()
            server.join()
        finally:
            process.kill()
        assert process.stdout.read().count(b"SSL_do_handshake -> 1") > 3
    assert fetched.outcome in {"timeout", "too_slow", "tls"}, fetched
    assert fetched.ended_s - fetched.started_s < IMPATIENT.connect_s + IMPATIENT.slow_s + 5
