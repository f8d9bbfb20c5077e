"""Snapshots at an `s3://` path, through s3fs, against a server that speaks S3 on this machine.

Neither s3fs nor moto is among the packages that teia is developed with: `pip install s3fs 'moto[server]'` for this.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from teia.cluster.nats.objects import FileObjects, ObjectGone
from teia.cluster.nats.thread import LoopThread
from tests.cluster.conftest import Nats
from tests.cluster.kept import OwnedCell
from tests.waiting import until

pytestmark = pytest.mark.slow
BUCKET = "teia"


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    pytest.importorskip("s3fs")
    pytest.importorskip("moto")
    boto3 = pytest.importorskip("boto3")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with (tmp_path / "moto.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        until(lambda: is_open(port) or process.poll() is not None, "the bucket's server listens")
        assert process.poll() is None
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "anybody")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        boto3.client("s3").create_bucket(Bucket=BUCKET)
        yield f"s3://{BUCKET}/snapshots"
    finally:
        process.kill()
        process.wait()


@pytest.mark.filterwarnings("ignore")  # the packages' own
def test_a_cell_is_saved_to_s3_and_restored_from_it(bucket: str, nats: Nats, tmp_path: Path) -> None:
    """A3: three snapshots, of which two are kept; a node that never saw the cell has it from there."""
    with LoopThread() as thread:
        kept = OwnedCell(tmp_path, nats, thread, FileObjects(bucket, "c"))
        log, _ = kept.become_owner("a")
        snapshots = kept.snapshots()
        for begin in (0, 50, 100):
            kept.write(log, "a", 50, begin)
            made = kept.wait_for(snapshots.save(log, kept.folder_of("a")))
            assert made is not None
        assert len({name.rpartition(".")[0] for name in kept.names()}) == 2
        _, behind = kept.become_owner("b", kept.snapshots())
        assert behind == 0
        assert kept.dump("b") == kept.dump("a")
        with pytest.raises(ObjectGone):
            kept.wait_for(kept.objects.get("nothing", tmp_path / "nothing"))
        kept.wait_for(kept.wire.end())
        nats.wires.clear()
