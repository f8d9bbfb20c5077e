"""The socket where announcements are heard, and what arrives there."""

from __future__ import annotations

import socket
import stat
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from teia.errors import ConfigError
from teia.signals.announce import MALFORMED, URLS_AT_ONCE, AnnouncementSocket, Datagram, PathTaken, decode


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="teia-") as folder:
        yield Path(folder) / "s"


def test_a_datagram_says_counts_and_urls() -> None:
    assert decode(b"teia-announce 1 dropped=2 seen=5\nhttp://a/\nhttp://b/") == Datagram(
        {"dropped": 2, "seen": 5}, ("http://a/", "http://b/")
    )


def test_a_datagram_may_name_its_cache() -> None:
    assert decode(b"teia-announce 1 cache=rio-1 seen=5\nhttp://a/") == Datagram({"seen": 5}, ("http://a/",), "rio-1")
    assert decode(b"teia-announce 1 cache=rio").cache == "rio"


@pytest.mark.parametrize(
    "datagram",
    [
        b"teia-announce 1 cache=RIO\nhttp://a/",
        b"teia-announce 1 cache=10.0.0.1:3128\nhttp://a/",
        b"teia-announce 1 cache=-\nhttp://a/",
        b"teia-announce 1 cache=" + b"a" * 32 + b"\nhttp://a/",
        b"",
        b"GET / HTTP/1.1",
        b"teia-announce 2\nhttp://a/",
        b"teia-announce 1 seen=-1",
        b"teia-announce 1 seen=9999999999999999999",
    ],
)
def test_what_is_none_is_counted(datagram: bytes) -> None:
    assert decode(datagram) == MALFORMED


def test_lines_that_are_no_text_are_counted() -> None:
    assert decode(b"teia-announce 1\n\xff\nhttp://a/\n\x1b[2J") == Datagram({"malformed": 2}, ("http://a/",))


def test_only_what_a_helper_counts_is_believed() -> None:
    assert decode(b"teia-announce 1 seen=3 updated=999 anything=1") == Datagram({"seen": 3}, ())


def test_of_a_flood_so_much_is_read_before_others_have_their_turn(path: Path) -> None:
    many = b"\n".join([b"teia-announce 1 dropped=1", *[b"http://a/"] * (URLS_AT_ONCE + 7)])
    assert decode(many).counts == {"dropped": 8}
    ear = AnnouncementSocket(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        for _ in range(3):
            sender.sendto(many, str(path))
    assert [sum(len(heard.urls) for heard in ear.receive()) for _ in range(4)] == [URLS_AT_ONCE] * 3 + [0]
    ear.close()


def test_a_socket_that_a_dead_crawler_left_is_replaced(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as left:
        left.bind(str(path))
    ear = AnnouncementSocket(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"teia-announce 1\nhttp://a/", str(path))
    assert [heard.urls for heard in ear.receive()] == [("http://a/",)]
    ear.close()
    assert not path.exists()


def test_a_crawler_that_listens_is_not_pushed_aside(path: Path) -> None:
    ear = AnnouncementSocket(path)
    with pytest.raises(ConfigError, match="another crawler is listening"):
        AnnouncementSocket(path)
    ear.close()


def test_a_crawler_that_ends_leaves_the_socket_of_one_that_came_after_it(path: Path) -> None:
    first = AnnouncementSocket(path)
    path.unlink()  # by whoever tidied up
    second = AnnouncementSocket(path)
    first.close()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"teia-announce 1\nhttp://a/", str(path))
    assert [heard.urls for heard in second.receive()] == [("http://a/",)]
    second.close()
    assert not path.exists()


@pytest.mark.heavy
def test_crawlers_that_come_and_go_at_one_path_always_leave_the_one_that_listens(path: Path) -> None:
    """Several nodes of one machine: as soon as one stops, another may listen, and is not cut off."""
    until, heard = time.monotonic() + 1.0, Counter[bool]()

    def come_and_go() -> None:
        while time.monotonic() < until:
            with suppress(PathTaken):
                ear = AnnouncementSocket(path)
                with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                    heard[not sender.connect_ex(str(path))] += 1
                ear.close()

    threads = [threading.Thread(target=come_and_go) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert heard[True]
    assert not heard[False]


def test_what_is_no_socket_is_left_alone(path: Path) -> None:
    path.write_text("mine")
    with pytest.raises(ConfigError, match="is not a socket"):
        AnnouncementSocket(path)
    assert path.read_text() == "mine"


@pytest.mark.parametrize("name", ["no/such/folder", "x" * 200])
def test_an_impossible_socket_path_is_reported_in_a_line(path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"signals\.socket"):
        AnnouncementSocket(path.parent / name)


def test_a_socket_is_for_its_user_and_the_group_of_its_folder(tmp_path: Path) -> None:
    ear = AnnouncementSocket(tmp_path / "ear")
    assert stat.S_IMODE((tmp_path / "ear").stat().st_mode) == 0o660
    ear.close()


def test_a_socket_is_made_in_a_folder_of_our_own_alone(tmp_path: Path) -> None:
    everybodys = tmp_path / "everybodys"
    everybodys.mkdir()
    everybodys.chmod(0o1777)
    for path in (everybodys / "ear", tmp_path / "nowhere" / "ear", Path("ear")):
        with pytest.raises(ConfigError, match=r"signals\.socket: "):
            AnnouncementSocket(path)
    assert list(everybodys.iterdir()) == []


def test_nothing_but_a_socket_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    ear = AnnouncementSocket(tmp_path / "ear")
    (tmp_path / "link").symlink_to(tmp_path / "ear")
    for name in ("file", "link"):
        with pytest.raises(ConfigError, match="is not a socket"):
            AnnouncementSocket(tmp_path / name)
    ear.close()
    assert (tmp_path / "file").read_text() == "kept"
