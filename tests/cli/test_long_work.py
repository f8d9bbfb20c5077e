"""Long commands: their progress, and the last line."""

from __future__ import annotations

from pathlib import Path

import pytest

from teia.cli.long_work import count, progress_text
from teia.cli.progress import size
from teia.lib.progress import Work
from tests.cli.conftest import Teia
from tests.crawler.webs import ScriptedWeb, crawl_web, html


def work(total: float, done: float) -> Work:
    found = Work(total)
    found.done = done
    return found


def test_progress_has_share_amounts_and_an_estimate_when_there_is_one() -> None:
    shown = progress_text("reading the archive", work(2_000_000, 500_000), 30.0, size)
    assert shown.startswith("reading the archive: 25%, ")
    assert shown.endswith("about 1 min 30 s left")
    assert progress_text("indexing", work(1_000, 5), 1.0, count) == "indexing: 0%, 5 of 1,000, no estimate yet"
    assert progress_text("indexing", work(0, 0), 1.0, count) == "indexing"


@pytest.mark.parametrize(
    ("words", "next_step"),
    [
        (("audit", "archive"), "next: nothing to repair"),
        (("export", "warc", "--out", "copy.warc.gz"), "next: teia import warc copy.warc.gz --data OTHER"),
    ],
)
def test_a_long_command_ends_with_what_to_do_next(
    teia: Teia, tmp_path: Path, words: tuple[str, ...], next_step: str
) -> None:
    crawl_web(ScriptedWeb({"x.test": {"/": html()}}), tmp_path, "x.test/")
    done = teia(*words, "--data", "data")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1].startswith(next_step)
