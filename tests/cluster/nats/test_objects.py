"""One suite for all places where snapshots go: the object store of NATS, a folder, another file system of fsspec's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from teia.cluster.nats.objects import FileObjects, NatsObjects, ObjectGone, Objects, ObjectsAway
from teia.cluster.nats.thread import LoopThread
from teia.errors import ConfigError, MissingComponent
from tests.cluster.conftest import Nats


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    with LoopThread() as made:
        yield made


@pytest.fixture(params=["nats", "folder", "memory"])
def objects(
    request: pytest.FixtureRequest, nats: Nats, thread: LoopThread, tmp_path: Path, unique: str
) -> Iterator[Objects]:
    if request.param == "nats":
        made: Objects = NatsObjects(thread.wait_for(nats.wire()), nats.clock, f"snap_{unique}", nats.count)
        nats.wires.clear()
    else:
        made = FileObjects(str(tmp_path / "store") if request.param == "folder" else "memory://store", unique)
    yield made
    thread.wait_for(made.close())


def test_what_is_put_is_got_until_it_is_deleted(objects: Objects, thread: LoopThread, tmp_path: Path) -> None:
    do, (source, target) = thread.wait_for, (tmp_path / "source", tmp_path / "target")
    assert do(objects.names("")) == []
    sizes = {"7-1-2-ab.pack": 3_000_000, "7-1-2-ab.map": 0, "77-1-2-ab.map": 10, "7-warc-x.warc.gz-0-5": 5}
    for name, size in sizes.items():
        data = os.urandom(size)
        source.write_bytes(data)
        do(objects.put(name, source))
        do(objects.get(name, target))
        assert target.read_bytes() == data
    assert do(objects.names("7-")) == ["7-1-2-ab.map", "7-1-2-ab.pack", "7-warc-x.warc.gz-0-5"]
    do(objects.delete("7-1-2-ab.pack"))
    do(objects.delete("7-1-2-ab.pack"))
    assert do(objects.names("7-1")) == ["7-1-2-ab.map"]
    with pytest.raises(ObjectGone):
        do(objects.get("7-1-2-ab.pack", target))
    do(objects.get("77-1-2-ab.map", target))


def test_a_deleted_object_leaves_nothing_in_nats(nats: Nats, thread: LoopThread, tmp_path: Path, unique: str) -> None:
    """The client's own way would leave a message of each for ever."""
    wire = thread.wait_for(nats.wire())
    nats.wires.clear()
    objects = NatsObjects(wire, nats.clock, f"snap_{unique}", nats.count)
    (tmp_path / "file").write_bytes(os.urandom(2_000_000))
    for name in ("a", "b"):
        thread.wait_for(objects.put(name, tmp_path / "file"))
        thread.wait_for(objects.delete(name))
    info = thread.wait_for(wire.js.stream_info(f"OBJ_snap_{unique}"))
    assert info.state.messages == 0
    thread.wait_for(objects.close())


def test_an_object_that_must_be_erased_leaves_the_files_of_the_server(
    own_nats: Nats, thread: LoopThread, tmp_path: Path
) -> None:
    """Another object keeps the file of the server alive."""
    objects = NatsObjects(thread.wait_for(own_nats.wire()), own_nats.clock, "snap_main", 1)
    own_nats.wires.clear()
    words = {"gone": b"xqslander ", "stays": b"xqharmless "}
    for name, word in words.items():
        (tmp_path / "file").write_bytes(word * 60_000)
        thread.wait_for(objects.put(name, tmp_path / "file"))
    thread.wait_for(objects.delete("gone", must_erase=True))
    files = [path.read_bytes() for path in (tmp_path / "nats").rglob("OBJ_snap_main/**/*.blk")]
    assert [name for name, word in words.items() if any(word in octets for octets in files)] == ["stays"]
    assert thread.wait_for(objects.names("")) == ["stays"]
    thread.wait_for(objects.close())


def test_a_place_that_cannot_be_used_is_reported(tmp_path: Path, thread: LoopThread) -> None:
    (tmp_path / "file").write_text("in the way")
    objects = FileObjects(str(tmp_path / "file" / "store"), "main")
    with pytest.raises(ObjectsAway, match="is not available now"):
        thread.wait_for(objects.put("a", tmp_path / "file"))
    with pytest.raises((ConfigError, MissingComponent), match=r"cluster\.snapshots = 'nowhere://x'"):
        FileObjects("nowhere://x", "main")
