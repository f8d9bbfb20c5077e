"""Rests of servers and addresses; the oracle is the list of requests, as a server's own log would show them."""

from __future__ import annotations

import gc
import random
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teia.config.sections import CourtesySettings
from teia.frontier.queue.politeness import FORGIVEN_AFTER_S, MAX_BACK_OFF_S, DelayTarget, Politeness


def polite(delay_s: float = 5.0, response_factor: float = 0.0, per_host: int = 1) -> Politeness:
    return Politeness(CourtesySettings(delay_s=delay_s, response_factor=response_factor, per_host=per_host))


def visit(
    politeness: Politeness, host: str, address: str, started: float, ended: float, retry_after_s: float = 0
) -> float:
    server, place = politeness.server(host), politeness.address(address)
    politeness.begin_request(server, place)
    return politeness.end_request(server, place, started, ended, retry_after_s)


# ---- one rest -------------------------------------------------------------------------------------------------------


def test_delay_of_a_server_begins_at_the_end_of_the_answer() -> None:
    politeness = polite(delay_s=5)
    assert visit(politeness, "a", "1.1.1.1", 10, 13) == 5
    server = politeness.server("a")
    assert not server.is_free(17.99, 1)
    assert server.is_free(18, 1)


def test_slow_server_has_a_longer_delay() -> None:
    politeness = polite(delay_s=5, response_factor=2)
    assert visit(politeness, "a", "1.1.1.1", 10, 20) == 20
    assert visit(politeness, "a", "1.1.1.1", 40, 41) == 5, "only the last response time counts"


def test_small_host_has_a_longer_delay_until_it_is_known_to_be_large() -> None:
    """A7: 20 s for small hosts where large ones have 5 s (Cho, Garcia-Molina et al., 2004)."""
    agreed = ("mine.test=2 Ana Souza",)
    courtesy = CourtesySettings(delay_s=5.0, response_factor=2.0, small_site_factor=4.0, agreed_delays=agreed)
    politeness = Politeness(courtesy)
    assert visit(politeness, "a", "1.1.1.1", 10, 11) == 20, "nothing is known of it"
    assert politeness.address("1.1.1.1").last_delay_s == 5, "other hosts of the address need not wait as long"
    politeness.server("a").is_small = False
    assert not politeness.server("a").is_free(30.99, 1), "the delay that is running is not cut short"
    assert visit(politeness, "a", "1.1.1.1", 40, 41) == 5
    assert visit(politeness, "mine.test", "1.1.1.2", 10, 11) == 2, "its owner agreed"
    politeness.delay_after_crash([("b", "")], 100)
    assert not politeness.server("b").is_free(119.99, 1)
    assert visit(polite(delay_s=0), "a", "1.1.1.1", 10, 11) == 0


def test_two_names_of_one_address_share_its_delay() -> None:
    politeness = polite(delay_s=5)
    visit(politeness, "a", "1.1.1.1", 10, 11)
    assert politeness.server("b").is_free(12, 1)
    assert not politeness.address("1.1.1.1").is_free(15.99, 1)
    assert politeness.address("1.1.1.1").is_free(16, 1)


def test_delay_of_a_name_holds_at_all_its_addresses() -> None:
    politeness = polite(delay_s=5)
    visit(politeness, "a", "1.1.1.1", 10, 11)
    assert politeness.address("2.2.2.2").is_free(12, 1)
    assert not politeness.server("a").is_free(12, 1)


def test_zero_delay_means_no_wait_and_no_factor() -> None:
    politeness = polite(delay_s=0, response_factor=2)
    assert visit(politeness, "a", "1.1.1.1", 10, 20) == 0
    assert politeness.server("a").is_free(20, 1)
    assert politeness.address("1.1.1.1").is_free(20, 1)


def test_crawl_delay_and_retry_after_hold_even_with_zero_delay() -> None:
    politeness = polite(delay_s=0)
    politeness.apply_crawl_delay(politeness.server("a"), 30)
    assert visit(politeness, "a", "1.1.1.1", 0, 1) == 30
    assert visit(politeness, "a", "1.1.1.1", 40, 41, retry_after_s=600) == 600
    assert not politeness.server("a").is_free(640.9, 1)


def test_retry_after_delays_the_server_and_not_its_neighbours() -> None:
    politeness = polite(delay_s=5)
    visit(politeness, "a", "1.1.1.1", 0, 1, retry_after_s=3_600)
    assert not politeness.server("a").is_free(3_600, 1)
    assert politeness.address("1.1.1.1").is_free(6, 1), "the other names on the address were not asked to wait an hour"
    assert not politeness.address("1.1.1.1").is_free(5.9, 1)


def test_shorter_delay_never_ends_a_longer_one() -> None:
    politeness = polite(delay_s=5, per_host=2)
    server, address = politeness.server("a"), politeness.address("1.1.1.1")
    politeness.begin_request(server, address)
    politeness.begin_request(server, address)
    politeness.end_request(server, address, 0, 1, retry_after_s=100)
    politeness.end_request(server, address, 0, 2)
    assert server.ready_at == 101


# ---- Crawl-delay ----------------------------------------------------------------------------------------------------


def test_crawl_delay_lengthens_the_delay_that_is_running() -> None:
    politeness = polite(delay_s=5)
    visit(politeness, "a", "1.1.1.1", 10, 11)
    server = politeness.server("a")
    politeness.apply_crawl_delay(server, 60)
    assert (server.ready_at, server.last_delay_s) == (71, 60)


def test_shorter_crawl_delay_does_not_shorten_a_running_delay() -> None:
    politeness = polite(delay_s=5)
    visit(politeness, "a", "1.1.1.1", 10, 11)
    politeness.apply_crawl_delay(politeness.server("a"), 1)
    assert politeness.server("a").ready_at == 16


def test_crawl_delay_before_the_first_request_delays_nothing() -> None:
    politeness = polite()
    politeness.apply_crawl_delay(politeness.server("a"), 60)
    assert politeness.server("a").is_free(0, 1)


def test_longest_crawl_delay_of_a_servers_origins_holds() -> None:
    """http and https are one server with two robots.txt; reading the second must not undo the first."""
    politeness = polite()
    server = politeness.server("a")
    politeness.apply_crawl_delay(server, 60, "https://a")
    politeness.apply_crawl_delay(server, 0, "http://a")
    assert server.crawl_delay_s == 60
    politeness.apply_crawl_delay(server, 10, "http://a")
    assert server.crawl_delay_s == 60
    politeness.apply_crawl_delay(server, 0, "https://a")
    assert server.crawl_delay_s == 10


# ---- refusals -------------------------------------------------------------------------------------------------------


def refuse(politeness: Politeness, times: int) -> list[float]:
    """The back-offs of a server that refuses every request, asked again as soon as it may be."""
    server, now, waits = politeness.server("a"), 0.0, []
    for _ in range(times):
        waits.append(politeness.back_off(server, now, jitter=0))
        now += waits[-1]
    return waits


def test_back_off_doubles_up_to_a_day() -> None:
    """It once fell back to a minute after the sixth refusal: the wait itself was taken for half an hour of peace."""
    waits = refuse(polite(), 14)
    assert waits[:6] == [60, 120, 240, 480, 960, 1_920]
    assert waits[10:] == [61_440, *[MAX_BACK_OFF_S] * 3]


def test_back_off_stays_a_day_for_ever() -> None:
    assert refuse(polite(), 1_200)[-1] == MAX_BACK_OFF_S


def test_jitter_adds_up_to_a_tenth_and_never_passes_the_cap() -> None:
    politeness = polite()
    assert politeness.back_off(politeness.server("a"), 0, jitter=0.5) == pytest.approx(63)
    server = politeness.server("b")
    server.refusals, server.backs_off_until = 11, 0
    assert politeness.back_off(server, 0, jitter=0.99) == MAX_BACK_OFF_S


def test_half_an_hour_of_peace_forgives() -> None:
    politeness = polite()
    server = politeness.server("a")
    first = politeness.back_off(server, 0, jitter=0)
    assert politeness.back_off(server, first + FORGIVEN_AFTER_S, jitter=0) == 120
    assert politeness.back_off(server, first + FORGIVEN_AFTER_S + 120 + FORGIVEN_AFTER_S + 1, jitter=0) == 60


def test_refusals_of_requests_under_way_together_are_one() -> None:
    politeness = polite(per_host=16)
    server = politeness.server("a")
    waits = [politeness.back_off(server, now, jitter=0) for now in (0.0, 0.5, 1.0)]
    assert waits == [60, 59.5, 59]
    assert server.refusals == 1


# ---- death and forgetting -------------------------------------------------------------------------------------------


def test_after_a_crash_server_and_address_wait_their_full_delay() -> None:
    politeness = polite(delay_s=5)
    politeness.delay_after_crash([("a", "1.1.1.1"), ("b", "")], now=100)
    assert [politeness.server(name).ready_at for name in "ab"] == [105, 105]
    assert politeness.address("1.1.1.1").ready_at == 105


def test_after_a_crash_a_crawl_delay_read_from_disk_lengthens_the_delay() -> None:
    politeness = polite(delay_s=5)
    politeness.delay_after_crash([("a", "1.1.1.1")], now=100)
    politeness.apply_crawl_delay(politeness.server("a"), 60)
    assert politeness.server("a").ready_at == 160


def test_after_a_crash_places_that_become_known_later_wait_as_long() -> None:
    """Hosts that wait on disk may have been requested just before the crash."""
    politeness = Politeness(CourtesySettings(delay_s=5.0, response_factor=0.0, small_site_factor=3.0))
    politeness.server("known").ready_at = 4_000
    politeness.delay_all_after_crash(now=100)
    assert politeness.server("a").ready_at == 115
    assert politeness.address("1.1.1.1").ready_at == 115
    assert politeness.server("known").ready_at == 4_000
    politeness.apply_crawl_delay(politeness.server("a"), 60)
    assert politeness.server("a").ready_at == 160
    politeness.forget_expired(now=2_000)
    assert politeness.server("b").is_free(2_000, 1), "long after the crash it is over"


def test_after_a_crash_places_that_are_known_already_wait_as_long() -> None:
    """A shared address is known from the ledger, before the hosts at it come from the disk."""
    politeness = Politeness(CourtesySettings(delay_s=5.0, response_factor=0.0, small_site_factor=3.0))
    politeness.address("1.1.1.1").known_sites = 500
    politeness.server("main.test")
    politeness.delay_all_after_crash(now=100)
    assert politeness.address("1.1.1.1").ready_at == politeness.server("main.test").ready_at == 115


def test_after_a_crash_no_recorded_delay_is_shortened() -> None:
    politeness = polite(delay_s=5)
    politeness.server("a").ready_at = 4_000
    politeness.delay_after_crash([("a", "")], now=100)
    assert politeness.server("a").ready_at == 4_000


def test_a_running_delay_is_not_forgotten() -> None:
    politeness = polite(delay_s=5)
    visit(politeness, "a", "1.1.1.1", 0, 1)
    politeness.forget_expired(6)
    assert set(politeness.servers) == {"a"}
    politeness.forget_expired(6.01)
    assert not politeness.servers
    assert not politeness.addresses


def test_servers_that_are_busy_backed_off_or_have_a_crawl_delay_are_not_forgotten() -> None:
    politeness = polite(delay_s=5)
    politeness.begin_request(politeness.server("busy"), politeness.address("1.1.1.1"))
    back_off_s = politeness.back_off(politeness.server("refused"), 0, jitter=0)
    politeness.apply_crawl_delay(politeness.server("slow"), 20)
    politeness.server("free")
    politeness.forget_expired(back_off_s + FORGIVEN_AFTER_S)
    assert set(politeness.servers) == {"busy", "refused", "slow"}
    assert set(politeness.addresses) == {"1.1.1.1"}


def test_forgotten_place_that_somebody_holds_is_found_again() -> None:
    """Two objects for one server would let two collections ask it at once."""
    politeness = polite()
    held = politeness.server("a")
    politeness.forget_expired(1_000_000)
    politeness.begin_request(held, politeness.address("1.1.1.1"))
    assert politeness.server("a") is held
    assert not politeness.server("a").is_free(1_000_000, 1)


def test_forgotten_place_that_nobody_holds_takes_no_memory() -> None:
    politeness = polite()
    for number in range(100):
        politeness.server(f"h{number}")
    politeness.forget_expired(1_000_000)
    gc.collect()
    assert not any(isinstance(each, DelayTarget) and each.name.startswith("h") for each in gc.get_objects())


# ---- any interleaving -----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Request:
    server: DelayTarget
    address: DelayTarget
    started: float
    ended: float = float("inf")


@dataclass(frozen=True, slots=True)
class Rest:
    """No request after the first `requests` ones may start at this place before `until`."""

    place: DelayTarget
    requests: int
    until: float


class Web:
    """Random requests, answers, Crawl-delays and waits; all times are multiples of 1/4 s, so sums are exact."""

    def __init__(self, chance: random.Random, delay_s: float, factor: float, per_host: int) -> None:
        self.chance, self.delay_s, self.factor, self.per_host = chance, delay_s, factor, per_host
        self.politeness = polite(delay_s, factor, per_host)
        self.now = 0.0
        self.requests: list[Request] = []
        self.delays: list[Rest] = []

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.chance.choice((self.ask, self.ask, self.answer, self.wait, self.learn_delay, self.forget))()

    def wait(self) -> None:
        self.now += self.chance.randrange(40) / 4

    def ask(self) -> None:
        server = self.politeness.server(f"h{self.chance.randrange(4)}")
        address = self.politeness.address(f"1.1.1.{self.chance.randrange(3)}")
        if server.is_free(self.now, self.per_host) and address.is_free(self.now, self.per_host):
            self.politeness.begin_request(server, address)
            self.requests.append(Request(server, address, self.now))

    def answer(self) -> None:
        under_way = [request for request in self.requests if request.ended == float("inf")]
        if not under_way:
            return
        request = self.chance.choice(under_way)
        request.ended = self.now
        own_s = max(self.delay_s, self.factor * (self.now - request.started)) if self.delay_s else 0.0
        retry_after_s = self.chance.choice((0, 0, 0, 60))
        self.must_rest(request.address, self.now + own_s)
        self.must_rest(request.server, self.now + max(own_s, request.server.crawl_delay_s, retry_after_s))
        self.politeness.end_request(request.server, request.address, request.started, self.now, retry_after_s)

    def must_rest(self, place: DelayTarget, until: float) -> None:
        self.delays.append(Rest(place, len(self.requests), until))

    def learn_delay(self) -> None:
        server = self.politeness.server(f"h{self.chance.randrange(4)}")
        delay_s = float(self.chance.choice((0, 10, 30)))
        self.politeness.apply_crawl_delay(server, delay_s)
        ends = [request.ended for request in self.requests if request.server is server and request.ended <= self.now]
        if ends:
            self.must_rest(server, max(ends) + delay_s)

    def forget(self) -> None:
        self.politeness.forget_expired(self.now)


@settings(max_examples=150)
@given(
    seed=st.integers(0, 2**32),
    delay_s=st.sampled_from((0.0, 1.0, 5.0)),
    factor=st.sampled_from((0.0, 2.0)),
    per_host=st.sampled_from((1, 1, 3)),
)
def test_no_two_requests_closer_than_the_delay(seed: int, delay_s: float, factor: float, per_host: int) -> None:
    web = Web(random.Random(seed), delay_s, factor, per_host)
    web.run(150)
    for rest in web.delays:
        for request in web.requests[rest.requests :]:
            if rest.place in (request.server, request.address):
                assert request.started >= rest.until


@settings(max_examples=80)
@given(seed=st.integers(0, 2**32), per_host=st.sampled_from((1, 2, 3)))
def test_never_more_than_per_host_at_once(seed: int, per_host: int) -> None:
    web = Web(random.Random(seed), 1.0, 0.0, per_host)
    web.run(150)
    for request in web.requests:
        under_way = [each for each in web.requests if each.started <= request.started < each.ended]
        assert sum(each.server is request.server for each in under_way) <= per_host
        assert sum(each.address is request.address for each in under_way) <= per_host


# ---- another courtesy -----------------------------------------------------------------------------------------------


def test_a_longer_delay_holds_for_delays_that_are_running() -> None:
    politeness = polite(delay_s=5)
    visit(politeness, "a", "1.1.1.1", 10, 11)
    politeness.apply_courtesy(CourtesySettings(delay_s=60))
    assert not politeness.server("a").is_free(70.9, 1)
    assert politeness.server("a").is_free(71, 1)
    assert not politeness.address("1.1.1.1").is_free(70.9, 1)
    assert politeness.server("never asked").is_free(12, 1)


def test_a_shorter_delay_cuts_no_delay_short_and_holds_from_the_next_on() -> None:
    politeness = polite(delay_s=60)
    visit(politeness, "a", "1.1.1.1", 10, 11)
    politeness.apply_courtesy(CourtesySettings(delay_s=5, response_factor=0))
    assert not politeness.server("a").is_free(70.9, 1)
    assert visit(politeness, "a", "1.1.1.1", 71, 72) == 5


@pytest.mark.parametrize("delay_s", [0.0, 0.1, 5.0])
def test_no_delay_of_ours_shortens_what_robots_txt_requests(delay_s: float) -> None:
    politeness = polite(delay_s=30)
    server = politeness.server("a")
    politeness.apply_crawl_delay(server, 20.0, "http://a")
    politeness.apply_courtesy(CourtesySettings(delay_s=delay_s, response_factor=0))
    assert visit(politeness, "a", "1.1.1.1", 10, 11) == 20
    politeness.apply_courtesy(CourtesySettings(delay_s=0, response_factor=0))
    assert not server.is_free(30.9, 1)
    assert server.is_free(31, 1)
