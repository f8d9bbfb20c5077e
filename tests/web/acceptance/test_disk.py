"""A disk that fills up, as people see it: on a real file system of a few MiB (UX.md 2.6 and, of check 25, disk low)."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.system.test_disk import SmallDisk, small_disk
from tests.waiting import until
from tests.web.conftest import crawled_data

__all__ = ["crawled_data"]
pytestmark = pytest.mark.timeout(120)
PATIENCE_S = 60.0


@contextmanager
def serving(disk: SmallDisk) -> Iterator[httpx2.Client]:
    """A server of the small disk, and somebody who may operate it."""
    words = ["serve", "--data", str(disk.inside / "data"), "--port", "0", "--no-crawler"]
    words += ["--token-out", str(disk.inside / "token")]
    command = disk.command([sys.executable, "-m", "teia", *words])
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said = ""
            while (found := re.search(r"http://127\.0\.0\.1:\d+", said)) is None:
                line = process.stderr.readline()
                assert line, said
                said += line
            token = (disk.outside / "token").read_text("ascii").strip()
            with httpx2.Client(base_url=found[0], headers={"authorization": f"Bearer {token}"}) as client:
                yield client
        finally:
            process.kill()


def test_a_disk_that_fills_up_is_reported_where_operators_look_and_no_more_when_there_is_room(
    crawled_data: Path, tmp_path: Path
) -> None:
    with small_disk(tmp_path, "size=64m") as disk:
        shutil.copytree(crawled_data, disk.outside / "data")
        with serving(disk) as client:

            def says() -> tuple[bool, bool]:
                """Whether the monitor and the head of every page warn of it."""
                page, other = client.get("/c/main"), client.get("/lab")
                assert (page.status_code, other.status_code) == (200, 200)
                return "of the disk is free" in page.text, "1 alert" in other.text

            until(lambda: says() == (False, False))
            disk.fill()
            until(lambda: says() == (True, True))
            twin = client.get("/api/v1/c/main/status").json()
            (need,) = [each for each in twin["needs"] if each["kind"] == "disk"]
            assert need["value"] == pytest.approx(0, abs=0.001), "to the last byte"
            assert f"fetching pauses at {need['limit']:.1%}" in re.sub(r"<[^>]+>", "", client.get("/c/main").text)
            assert client.get("/search?q=renda").status_code == 200, "people can still search"
            disk.set_extra_capacity()
            until(lambda: says() == (False, False))
