"""Rests and pauses of single hosts, as they are written."""

from __future__ import annotations

import pytest

from teia.config import Config, CourtesySettings
from teia.errors import ConfigError
from teia.frontier.hostrules import courtesy_of_all, host_delays, paused_hosts, with_delay
from teia.frontier.politeness import Politeness


def test_the_last_word_about_a_host_holds() -> None:
    assert host_delays(["a.test=5", "B.test = 2.5", "a.test=9"]) == {"a.test": 9.0, "b.test": 2.5}
    assert with_delay(["a.test=5", "b.test=2"], "a.test", 7.0) == ["b.test=2", "a.test=7"]
    assert with_delay(["a.test=5"], "a.test", None) == []
    assert paused_hosts([" A.test "]) == {"a.test"}


@pytest.mark.parametrize("text", ["a.test", "a.test=", "=5", "a.test=x", "a.test=-1", "a.test=1e9", "a.test=nan"])
def test_nonsense_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^courtesy\.host_delays = .*must be HOST=SECONDS"):
        host_delays([text])


def test_a_rest_is_only_ever_made_longer() -> None:
    politeness = Politeness(CourtesySettings(delay_s=5.0, host_delays=("slow.test=20", "quick.test=1")))
    rests = {host: politeness.rest_s(politeness.server(host)) for host in ("slow.test", "quick.test", "other.test")}
    assert rests == {"slow.test": 20.0, "quick.test": 5.0, "other.test": 5.0}


def test_collections_that_run_together_keep_every_longer_rest() -> None:
    configs = [
        Config(courtesy=CourtesySettings(host_delays=("a.test=9",))),
        Config(courtesy=CourtesySettings(host_delays=("a.test=7", "b.test=8"))),
    ]
    assert host_delays(courtesy_of_all(configs).host_delays) == {"a.test": 9.0, "b.test": 8.0}
