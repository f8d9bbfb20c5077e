"""`teia lab whatif` as a person runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Teia
from tests.crawler.fresh_crawls import fresh_web, quiet_world

SLOT_S = 3_600.0


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A collection that was kept fresh for three days."""
    folder = tmp_path_factory.mktemp("kept")
    web = quiet_world(pages=24, hosts=2, seed=3, sites__theta=0.3, changes__fastest=3.0, text__paragraphs=2)
    with fresh_web(web, folder, courtesy__delay_s=SLOT_S) as kept:
        kept.run(3, SLOT_S)
    return str(folder / "data")


def test_both_sides_are_printed_and_the_last_line_is_json(teia: Teia, data: str) -> None:
    done = teia("lab", "whatif", "--data", data, "--delay", "1800", "--policy", "index", "--days", "5", "--json")
    assert done.returncode == 0, done.stderr
    for word in ("current settings", "what if", "fresh", "bound", "full pass", "busiest hosts", "gain"):
        assert word in done.stdout
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["collection"] == "main"
    assert found["what_if"]["terms"] == {"delay_s": 1800.0, "policy": "index", "budget": None, "nodes": 1}
    assert found["what_if"]["visits_per_day"] > 1.8 * found["as_is"]["visits_per_day"]
    for side in (found["as_is"], found["what_if"]):
        assert 0 < side["fresh"]["low"] < side["fresh"]["mean"] < side["fresh"]["high"] <= 1
        assert {"host", "requests_per_day", "busy_share", "full_pass_s", "late_pages"} <= set(side["hosts"][0])
    assert found["prior_only"] == found["pages"] - found["visited_again"]
    assert 0 < found["prior_share"] < 1


def test_without_a_question_the_collection_is_shown_as_it_is(teia: Teia, data: str) -> None:
    done = teia("lab", "whatif", "--data", data, "--days", "3", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["what_if"] is None
    assert found["gain"] is None
    assert "what if" not in done.stdout.splitlines()[3]


@pytest.mark.parametrize(
    ("words", "says", "status"),
    [
        (("--policy", "efd"), "unknown policy 'efd'; did you mean edf?", 2),
        (("--budget", "0"), "--budget: 0 must be 1 or more visits per day", 2),
        (("--delay", "-3"), "--delay: -3 must be 0 s or more", 2),
        (("--collection", "other"), "there is no collection 'other'", 2),
    ],
)
def test_what_cannot_be_answered_is_reported_in_one_line(
    teia: Teia, data: str, words: tuple[str, ...], says: str, status: int
) -> None:
    done = teia("lab", "whatif", "--data", data, *words)
    assert done.returncode == status
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_a_collection_without_history_says_what_to_do(teia: Teia, tmp_path: Path) -> None:
    """One page, visited once: nothing waits."""
    with fresh_web(quiet_world(pages=1, hosts=1, seed=3), tmp_path / "new") as kept:
        kept.run(SLOT_S / 86_400.0, SLOT_S)
    done = teia("lab", "whatif", "--data", str(tmp_path / "new" / "data"), "--delay", "1")
    assert done.returncode == 1
    assert "no page was visited twice yet" in done.stderr
    assert "--keep-fresh" in done.stderr
