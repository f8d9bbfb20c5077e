"""`teia queue`: counted first, done with --yes (A6, A10)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from teia.cli.main import run
from tests.crawler.handmade import make


def queue(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        run(["queue", *words])
    return int(ended.value.code or 0), capsys.readouterr().out


def test_urls_are_counted_then_dropped_then_brought_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = ["--data", str(make(tmp_path / "data").path), "--json"]
    counted = json.loads(queue(capsys, "drop", "--host", "a.test", *data)[1])
    assert (counted["matched"], counted["done"], counted["examples"]) == (1, None, ["http://a.test/6"])
    assert json.loads(queue(capsys, "drop", "--host", "a.test", "--yes", *data)[1])["done"] == 1
    assert json.loads(queue(capsys, "drop", *data)[1])["matched"] == 0
    back = json.loads(queue(capsys, "retry", "--outcome", "dropped", "--yes", *data)[1])
    assert (back["matched"], back["done"]) == (1, 1)
    assert json.loads(queue(capsys, "retry", "--outcome", "timeout", *data)[1])["examples"] == ["http://b.test/7"]


@pytest.mark.parametrize(
    "words", [["burn"], ["drop", "--from", "nowhere"], ["drop", "--depth", "-1"], ["drop", "--from", "refresh"]]
)
def test_nonsense_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert queue(capsys, *words, "--data", str(make(tmp_path / "data").path))[0] == 2
