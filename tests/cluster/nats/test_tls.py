"""NATS over TLS: let in by an authority of one's own, refused with another (RELIABILITY 41, 56)."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from teia.clock import WallClock
from teia.cluster.nats.servers import NatsServer, NatsServers
from teia.cluster.nats.wire import connect
from teia.errors import ClusterError
from tests.conftest import missing

DAYS = "2"


def openssl(folder: Path, *words: str) -> None:
    try:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)
    except FileNotFoundError:
        missing("openssl")
        raise


def make_authority(folder: Path, name: str) -> Path:
    """A certificate authority of our own: its certificate, and its key beside it."""
    openssl(
        folder, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", DAYS,
        "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem",
        "-addext", "keyUsage=critical,keyCertSign,cRLSign",
    )  # fmt: skip
    return folder / f"{name}.pem"


def make_certificate(folder: Path, authority: str, address: str) -> None:
    """A server's certificate, for one address."""
    (folder / "server.ext").write_text(f"subjectAltName=IP:{address}\n")
    openssl(
        folder, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=nats",
        "-keyout", "server.key", "-out", "server.csr",
    )  # fmt: skip
    openssl(
        folder, "x509", "-req", "-in", "server.csr", "-CA", f"{authority}.pem", "-CAkey", f"{authority}.key",
        "-CAcreateserial", "-days", DAYS, "-extfile", "server.ext", "-out", "server.pem",
    )  # fmt: skip


def test_a_node_is_let_in_over_tls_and_trusts_no_other_authority(tmp_path: Path) -> None:
    async def main() -> None:
        servers = NatsServers(tmp_path / "nats", 1, WallClock())
        servers._prepare()
        place: NatsServer = servers._servers[0]
        ours, other = make_authority(tmp_path, "ours"), make_authority(tmp_path, "other")
        make_certificate(tmp_path, "ours", place.address)
        conf = servers.folder / f"{place.name}.conf"
        tls = f'tls {{ cert_file: "{tmp_path}/server.pem", key_file: "{tmp_path}/server.key", timeout: 5 }}\n'
        conf.write_text(conf.read_text() + tls)
        async with servers:
            url = [place.url.replace("nats://", "tls://")]
            wire = await connect(url, servers.key, "test", ca=ours)
            assert (await wire.request(wire.js.account_info())).streams == 0
            await wire.end()
            with pytest.raises(ClusterError, match=r"is not trusted: .*; see --ca"):
                await connect(url, servers.key, "test", ca=other)
            with pytest.raises(ClusterError, match=r"is not trusted: .*; see --ca"):
                await connect(url, servers.key, "test")
            with pytest.raises(ClusterError, match="file not found; see --ca"):
                await connect(url, servers.key, "test", ca=tmp_path / "none.pem")
            (tmp_path / "bad.pem").write_text("nonsense")
            with pytest.raises(ClusterError, match="contains no certificate; see --ca"):
                await connect(url, servers.key, "test", ca=tmp_path / "bad.pem")

    asyncio.run(main())
