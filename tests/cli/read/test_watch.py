"""`teia watch`: begun, listed, tried, ended (T10)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from teia.cli.main import run
from tests.crawler.offline import offline_crawl

URL = "http://a.test/"


def watch(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        run(["watch", *words])
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out + said.err


@pytest.fixture
def data(tmp_path: Path) -> list[str]:
    with offline_crawl({URL: "<p>first</p>"}, tmp_path, URL) as offline:
        offline.run()
    return ["--data", str(tmp_path / "data")]


def test_a_page_is_watched_until_somebody_ends_it(data: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    said = watch(capsys, "add", URL, "--webhook", "https://b.test/hook", "--json", *data)[1]
    made: dict[str, Any] = json.loads(said)
    assert (made["what"], made["kind"], made["secret"][:6]) == (URL, "page", "whsec_")
    listed = json.loads(watch(capsys, "list", "--json", *data)[1])["subscriptions"]
    assert [(each["id"], "secret" in each) for each in listed] == [(made["id"], False)]
    assert "whsec_" not in watch(capsys, "list", *data)[1]
    assert json.loads(watch(capsys, "try", made["id"], "--json", *data)[1])["waiting"] == 1
    assert "subscription to http://a.test/ removed" in watch(capsys, "remove", made["id"], *data)[1]
    assert watch(capsys, "list", *data) == (0, "main: no subscriptions\n")


def test_a_search_is_watched_with_a_feed_alone(data: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    status, said = watch(capsys, "add", "--search", "first", *data)
    assert (status, "feed: /c/main/feed/" in said, "secret" in said) == (0, True, False)


@pytest.mark.parametrize(
    "words",
    [
        ["add"],
        ["add", "http://a.test/never"],
        ["add", URL, "--webhook", "http://127.0.0.1/"],
        ["remove", "nothing"],
        ["try", "nothing"],
    ],
)
def test_nonsense_is_refused_in_a_line(data: list[str], capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    status, said = watch(capsys, *words, *data)
    assert (status in (1, 2), said.count("\n")) == (True, 1), said
