"""`teia page`: what a person reads of one page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from teia.cli.main import run
from tests.crawler.webs import ScriptedWeb, crawl_web, html


def test_times_are_shown_to_the_second_and_long_lists_say_that_they_are_cut(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = {"/": html(*(f"/{n}" for n in range(12)))} | {f"/{n}": html("/") for n in range(12)}
    crawled = crawl_web(ScriptedWeb({"x.test": pages}), tmp_path, "x.test/")
    with pytest.raises(SystemExit, match="0"):
        run(["page", f"http://x.test:{crawled.port}/", "--data", str(crawled.data)])
    shown = capsys.readouterr().out
    assert re.search(r"^  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC  200  ", shown, re.MULTILINE)
    assert "outgoing links: 12, the first 10:" in shown
