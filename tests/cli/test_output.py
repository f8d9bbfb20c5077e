"""What is printed is what was meant."""

from __future__ import annotations

import subprocess
import sys

import pytest

from teia.cli.output import PlainConsole, count_of, progress_console, result_console

RARELY_NEEDED = ("rich", "numpy", "duckdb", "tantivy", "teia.frontier.traps.watch", "teia.crawler.proxy_collector")


def test_a_name_between_colons_is_no_picture(capsys: pytest.CaptureFixture[str]) -> None:
    result_console().print("http://a.test/:heart:/")
    progress_console().print("saved in /data/:x:")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("http://a.test/:heart:/\n", "saved in /data/:x:\n")


def test_a_number_has_its_noun_in_the_right_form() -> None:
    assert [count_of(number, "host") for number in (0, 1, 1204)] == ["0 hosts", "1 host", "1,204 hosts"]


def test_a_file_gets_whole_lines_without_styles(capsys: pytest.CaptureFixture[str]) -> None:
    console = progress_console()
    assert isinstance(console, PlainConsole)
    console.print(f"[bold]main[/bold]: \\[x] {'word ' * 30}end")
    console.print("[red]as it is", markup=False)
    with console.status("indexing") as status:
        status.update("indexing, 3 pages left")
    assert capsys.readouterr().err == f"main: [x] {'word ' * 30}end\n[red]as it is\n"


def test_a_crawl_starts_without_what_it_may_not_need() -> None:
    """A start of 0.3 s is a tenth of a crawl of 3,000 pages; these would make it half as long again."""
    program = f"import teia.cli.crawl.run_crawl, sys; print([each for each in {RARELY_NEEDED} if each in sys.modules])"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
