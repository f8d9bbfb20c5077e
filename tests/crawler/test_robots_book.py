"""What is known of an origin's robots.txt, and how long."""

from __future__ import annotations

from teia.config.sections import CourtesySettings, LimitSettings
from teia.crawler.robots import RobotsCache
from teia.records import Outcome

ORIGIN = "http://a.test"
DAY_S = 86_400.0


def book() -> RobotsCache:
    return RobotsCache(CourtesySettings(retry_wait_s=30.0), LimitSettings())


def test_a_file_is_believed_for_a_day() -> None:
    robots = book()
    robots.learn(ORIGIN, "200", 200, b"User-agent: *\nDisallow: /x", 0.0)
    assert robots.rules_of(ORIGIN, DAY_S - 1) is not None
    assert robots.rules_of(ORIGIN, DAY_S) is None


def test_unreachable_file_does_not_grow_old_before_it_has_refused_something() -> None:
    robots = book()
    robots.learn(ORIGIN, Outcome.TIMEOUT, 0, b"", 0.0)
    known = robots.rules_of(ORIGIN, 10_000.0)
    assert known is not None
    assert known.refusal == Outcome.TIMEOUT
    known.was_used = True
    assert robots.rules_of(ORIGIN, 10_000.0) is None


def test_server_errors_are_robots_unreachable_and_network_errors_keep_their_name() -> None:
    robots = book()
    for outcome, status, refusal in (("500", 500, Outcome.ROBOTS_UNREACHABLE), (Outcome.DNS, 0, Outcome.DNS)):
        robots.learn(ORIGIN, outcome, status, b"", 0.0)
        known = robots.rules_of(ORIGIN, 1.0)
        assert known is not None
        assert known.rules.unreachable
        assert known.refusal == refusal


def test_a_good_copy_outlives_its_server() -> None:
    robots = book()
    robots.learn(ORIGIN, "200", 200, b"User-agent: *\nDisallow: /x", 0.0)
    rules = robots.learn(ORIGIN, "503", 503, b"", DAY_S)
    assert not rules.unreachable
    assert not rules.allows(f"{ORIGIN}/x")


def test_prerequisite_keeps_its_origin_over_redirects() -> None:
    request = RobotsCache.prerequisite(ORIGIN, 5.0)
    hop = RobotsCache.next_hop(request, "http://b.test/r")
    assert (hop.url, hop.origin, hop.hops, hop.purpose) == ("http://b.test/r", ORIGIN, 1, "robots")


def test_rules_of_a_host_that_leaves_memory_are_dropped_if_disk_has_them() -> None:
    robots = book()
    stored, elsewhere = f"{ORIGIN}:8080", "https://a.test"
    robots.learn(ORIGIN, "404", 404, b"", 0.0, is_stored=True)
    robots.learn(stored, "404", 404, b"", 0.0, is_stored=True)
    robots.learn(elsewhere, "404", 404, b"", 0.0)
    robots.learn("http://b.test", "404", 404, b"", 0.0, is_stored=True)
    robots.forget("a.test")
    robots.forget("a.test")
    known = [robots.rules_of(each, 1.0) is not None for each in (ORIGIN, stored, elsewhere, "http://b.test")]
    assert known == [False, False, True, True]


def test_a_file_that_was_fetched_again_is_not_forgotten_before_that_is_noticed() -> None:
    """Its host has nothing else to do and leaves memory: the file was fetched again and again."""
    robots = RobotsCache(CourtesySettings(), LimitSettings())
    assert robots.refetch(ORIGIN, 10.0) is not None
    robots.learn(ORIGIN, "404", 404, b"", 11.0, is_stored=True)
    robots.forget("a.test")
    assert robots.refetch(ORIGIN, 10.0) is None
    robots.forget("a.test")
    assert robots.rules_of(ORIGIN, 12.0) is None
