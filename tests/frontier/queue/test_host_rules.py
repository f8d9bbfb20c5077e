"""Rests and pauses of single hosts, as they are written."""

from __future__ import annotations

import pytest

from teia.config.sections import Config, CourtesySettings, LimitSettings
from teia.errors import ConfigError
from teia.frontier.queue.host_rules import (
    AgreedDelay,
    agreements,
    budget_of,
    delay_of,
    host_budgets,
    host_delays,
    merge_courtesy,
    paused_hosts,
    with_agreement,
    with_budget,
    with_delay,
)
from teia.frontier.queue.politeness import Politeness


def test_the_last_word_about_a_host_holds() -> None:
    assert host_delays(["a.test=5", "B.test = 2.5", "a.test=9"]) == {"a.test": 9.0, "b.test": 2.5}
    assert with_delay(["a.test=5", "b.test=2"], "a.test", 7.0) == ["b.test=2", "a.test=7"]
    assert with_delay(["a.test=5"], "a.test", None) == []
    assert paused_hosts([" A.test "]) == {"a.test"}


@pytest.mark.parametrize("text", ["a.test", "a.test=", "=5", "a.test=x", "a.test=-1", "a.test=1e9", "a.test=nan"])
def test_nonsense_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^courtesy\.host_delays = .*must be HOST=SECONDS"):
        host_delays([text])


def test_a_delay_is_only_ever_made_longer() -> None:
    politeness = Politeness(CourtesySettings(delay_s=5.0, host_delays=("slow.test=20", "quick.test=1")))
    delays = {host: politeness.delay_s(politeness.server(host)) for host in ("slow.test", "quick.test", "other.test")}
    assert delays == {"slow.test": 20.0, "quick.test": 5.0, "other.test": 5.0}


def test_collections_that_run_together_keep_every_longer_delay() -> None:
    configs = [
        Config(courtesy=CourtesySettings(host_delays=("a.test=9",))),
        Config(courtesy=CourtesySettings(host_delays=("a.test=7", "b.test=8"))),
    ]
    assert host_delays(merge_courtesy(configs).host_delays) == {"a.test": 9.0, "b.test": 8.0}


# ---- agreed, and budgets --------------------------------------------------------------------------------------------


def asked_once(politeness: Politeness, host: str, address: str) -> tuple[float, float]:
    """How long a server and its address rest after an answer that took no time."""
    server, place = politeness.server(host), politeness.address(address)
    politeness.begin_request(server, place)
    return politeness.end_request(server, place, 0.0, 0.0), place.last_delay_s


def test_a_delay_is_shorter_only_where_somebody_agreed_and_is_named() -> None:
    """C2, T5: a Crawl-delay still wins, and another site at the address is not asked sooner for it."""
    courtesy = CourtesySettings(delay_s=5.0, agreed_delays=("quick.test=1 Ana Souza", "late.test=9 Rui"))
    politeness = Politeness(courtesy)
    assert asked_once(politeness, "quick.test", "1.1.1.1") == (1.0, 1.0)
    assert asked_once(politeness, "late.test", "2.2.2.2") == (5.0, 5.0), "what was agreed never makes a rest longer"
    assert asked_once(politeness, "other.test", "1.1.1.1") == (5.0, 5.0)
    assert asked_once(politeness, "quick.test", "1.1.1.1") == (1.0, 5.0), "now two sites are known to be there"
    politeness.apply_crawl_delay(politeness.server("quick.test"), 7.0)
    assert politeness.delay_s(politeness.server("quick.test")) == 7.0


@pytest.mark.parametrize(
    "text", ["a.test=1", "a.test=1 ab", "a.test=0 Ana", "=1 Ana", "a.test=x Ana", "a.test=nan Ana"]
)
def test_an_agreement_without_a_person_or_a_delay_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^courtesy\.agreed_delays = .*must be HOST=SECONDS NAME"):
        agreements((text,))


def test_of_two_collections_that_agreed_the_longer_delay_holds() -> None:
    configs = [Config(courtesy=CourtesySettings(agreed_delays=(f"a.test={rest} Ana",))) for rest in (1, 3)]
    assert agreements(merge_courtesy(configs).agreed_delays) == {"a.test": AgreedDelay(3.0, "Ana")}
    assert with_agreement(("a.test=1 Ana",), "a.test", AgreedDelay(2.0, "Rui")) == ["a.test=2 Rui"]
    assert with_agreement(("a.test=1 Ana",), "a.test", None) == []


@pytest.mark.parametrize("is_first", [True, False])
def test_a_collection_without_the_agreement_counts_with_its_own_delay(is_first: bool) -> None:
    """C2: its requests and the other's look the same to the server."""
    agreed = Config(courtesy=CourtesySettings(delay_s=5.0, agreed_delays=("a.test=0.05 Ana",)))
    plain = Config(courtesy=CourtesySettings(delay_s=2.0))
    courtesy = merge_courtesy([agreed, plain] if is_first else [plain, agreed])
    assert delay_of(courtesy, "a.test") == 2.0
    assert delay_of(merge_courtesy([agreed]), "a.test") == 0.05


def test_an_address_of_a_named_network_is_requested_no_sooner_for_an_agreement() -> None:
    """frontier/queue/shared_addresses.py: never more than 1 / shared_rest_s requests a second."""
    agreed = ("quick.test=0.05 Ana Souza",)
    courtesy = CourtesySettings(delay_s=5.0, shared_rest_s=1.0, cdn_nets=("104.16.0.0/13",), agreed_delays=agreed)
    assert asked_once(Politeness(courtesy), "quick.test", "104.16.0.1") == (0.05, 1.0)
    assert asked_once(Politeness(courtesy), "quick.test", "1.1.1.1") == (0.05, 0.05)


def test_a_host_may_have_a_budget_of_its_own() -> None:
    limits = LimitSettings(pages_per_host=100, host_budgets=("a.test=7",))
    assert (budget_of(limits, "a.test"), budget_of(limits, "b.test")) == (7, 100)
    assert with_budget(["a.test=7", "b.test=3"], "a.test", 9) == ["b.test=3", "a.test=9"]
    for text in ("a.test", "a.test=0", "a.test=-1", "a.test=x", "=5", "a.test=1.5", "a.test=99999999999"):
        with pytest.raises(ConfigError, match=r"^limits\.host_budgets = .*must be HOST=NUMBER"):
            host_budgets((text,))
