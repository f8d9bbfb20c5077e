"""What is printed is what was meant."""

from __future__ import annotations

import pytest

from teia.cli.output import count_of, progress_console, result_console


def test_a_name_between_colons_is_no_picture(capsys: pytest.CaptureFixture[str]) -> None:
    result_console().print("http://a.test/:heart:/")
    progress_console().print("saved in /data/:x:")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("http://a.test/:heart:/\n", "saved in /data/:x:\n")


def test_a_number_has_its_noun_in_the_right_form() -> None:
    assert [count_of(number, "host") for number in (0, 1, 1204)] == ["0 hosts", "1 host", "1,204 hosts"]
