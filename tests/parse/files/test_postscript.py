"""PostScript runs in a process with nothing to reach, and costs itself at most."""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from teia.lab.world.exchange import WorldAnswer
from teia.parse.files import postscript
from teia.parse.parse import parse_document
from teia.records import Page
from tests.conftest import missing
from tests.crawler.webs import ScriptedWeb, crawl_web, html
from tests.waiting import until

ASLEEP_S = 47
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/postscript\r\n\r\n"
BEGIN = b"%!PS-Adobe-3.0\n%%Title: (A small report)\n%%Author: Somebody\n/Helvetica findfont 12 scalefont setfont\n"
PAGE = b"72 700 moveto (The first page) show 72 680 moveto (of a na\\357ve report) show showpage\n"


@pytest.fixture(autouse=True)
def ghostscript() -> None:
    if shutil.which(postscript.PROGRAM) is None:
        missing("ghostscript is not installed")


def read(program: bytes) -> Page:
    result = parse_document("http://a.test/x.ps", HEAD, BEGIN + program)
    assert result.failed == ()
    return result.page


@pytest.mark.heavy
def test_text_and_title_of_a_postscript_document_are_found() -> None:
    page = read(PAGE + b"72 700 moveto (and the second) show showpage\n")
    assert (page.media_type, page.title, page.author) == ("application/postscript", "A small report", "Somebody")
    assert page.text.split() == ["The", "first", "page", "of", "a", "naïve", "report", "and", "the", "second"]
    assert page.metadata == {}


@pytest.mark.heavy
def test_what_a_program_prints_is_no_text() -> None:
    assert read(b"(printed) print flush\n" + PAGE).text.split()[:3] == ["The", "first", "page"]


@pytest.mark.heavy
def test_an_error_keeps_the_pages_before_it_and_is_reported() -> None:
    page = read(PAGE + b"no.such.operator\n" + PAGE)
    assert "naïve" in page.text
    assert page.metadata == {"unread": "the end, because Ghostscript found an error in it"}


@pytest.mark.heavy
def test_an_endless_program_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postscript, "CPU_S", 1)
    began = time.monotonic()
    page = read(PAGE + b"{} loop\n")
    assert "1 s" in page.metadata["unread"]
    assert page.truncated == "text"
    assert time.monotonic() - began < postscript.LONGEST_S


@pytest.mark.heavy
def test_a_program_that_waits_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postscript, "LONGEST_S", 0.5)
    assert "took more than 0.5 s" in read(PAGE + b"{ 2000000000 { 1 pop } repeat } loop\n").metadata["unread"]


@pytest.mark.heavy
def test_a_program_that_allocates_without_end_fails_alone() -> None:
    page = read(PAGE + b"/a 1000000 array def 0 1 999999 { a exch 65000 string put } for showpage\n")
    assert page.metadata["unread"].startswith("the end, because")


@pytest.mark.heavy
def test_a_program_that_writes_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postscript, "MAX_OUTPUT_BYTES", 20_000)
    page = read(b"1 1 2000 { pop 72 700 moveto (many many words) show showpage } for\n")
    assert "many many words" in page.text
    assert len(page.text) <= 20_000
    assert page.truncated == "text"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Ghostscript's temporary folder is /tmp by default, and its safe mode permits everything below it."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # not that of the tests
        Path(folder).chmod(0o777)
        yield Path(folder)


@pytest.mark.heavy
def test_a_program_reads_and_writes_no_file_and_starts_no_command(open_folder: Path) -> None:
    secret, made = open_folder / "secret", open_folder / "made"
    secret.write_text("(secretword) show")
    for attack in (
        f"({secret}) run",
        f"({secret}) (r) file 100 string readstring pop show",
        f"({made}) (w) file (x) writestring",
        f"({secret}) deletefile",
        f"(%pipe%touch {made}) (w) file pop",
        f"<< /OutputFile ({made}) >> setpagedevice showpage",
    ):
        page = read(PAGE + attack.encode() + b"\n")
        assert "secretword" not in page.text
        assert "the end" in page.metadata["unread"], attack
        assert not made.exists()
        assert secret.exists()


def test_ghostscript_ends_with_the_process_that_started_it() -> None:
    """The kernel forgets this when the user changes."""
    code = f"""
from teia.lib.child_process import ChildProcess
from teia.parse.files import postscript
process = ChildProcess((*postscript._limits(), *postscript._isolation(), "sleep", "{ASLEEP_S}"))
print(process.pid, flush=True)
import time
time.sleep({ASLEEP_S})
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = Path("/proc") / parent.stdout.readline().strip() / "cmdline"
        until(lambda: child.read_bytes().startswith(b"sleep"), "the program runs")
        parent.kill()
    until(lambda: not child.exists() or not child.read_bytes(), "it has ended with its parent")


def test_without_ghostscript_the_document_is_typed_and_said_to_be_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postscript, "PROGRAM", "no-such-program")
    page = read(PAGE)
    assert (page.title, page.text) == ("A small report", "")
    assert page.metadata == {"unread": "Ghostscript is not installed"}


def test_a_parse_child_runs_ghostscript_within_its_own_limits(tmp_path: Path) -> None:
    answer = WorldAnswer(200, b"Content-Type: application/postscript\r\n", BEGIN + PAGE + b"no.such.operator\n")
    crawled = crawl_web(ScriptedWeb({"h.test": {"/": html("/x.ps"), "/x.ps": answer}}), tmp_path, "h.test/")
    assert crawled.outcomes() == {"h.test/": "200", "h.test/x.ps": "200"}
    records = b"".join(gzip.decompress(file.read_bytes()) for file in crawled.data.rglob("*.warc.gz"))
    assert b"unread: the end, because Ghostscript found an error in it" in records
