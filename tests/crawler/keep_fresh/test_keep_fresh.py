"""Pages that are kept fresh: the live refresh with the real frontier, commit and plans (A13, F2, P9)."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import fields
from itertools import pairwise
from pathlib import Path

import pytest

from teia.config.sections import RefreshSettings
from teia.crawler.keep_fresh.keep_fresh import interleave
from teia.crawler.ownership import KeptElsewhere
from teia.frontier.cell.revisits import hosts_with_pages, next_pages
from teia.frontier.cell.rows import QueuedUrl
from teia.lab.measure.true_freshness import true_freshness
from teia.refresh.history import VisitResult
from teia.refresh.policies import POLICIES
from teia.store.root import open_root
from teia.urls import key_of, site_of, slot_of
from teia.views.reports.freshness import freshness
from teia.views.reports.source import open_source
from tests.crawler.fresh_crawls import DAY_S, EPOCH_S, ManualClock, fresh_web, quiet_world
from tests.crawler.test_commit import repeat_every_commit

SLOT_S = 3_600.0
WEB = {"pages": 24, "hosts": 2, "seed": 3, "sites__theta": 0.0, "changes__fastest": 3.0}


def queued(name: str) -> QueuedUrl:
    return QueuedUrl(f"http://a.test/{name}", key_of(name), 0, 0, 0, 0.0)


# ---- whose turn it is -----------------------------------------------------------------------------------------------


def test_new_and_known_pages_take_turns() -> None:
    new, known = [queued(f"n{n}") for n in range(6)], [queued(f"k{n}") for n in range(6)]
    taken = [item.url[-2:] for item in interleave(new, known, 6, 0.5, 0)]
    assert taken == ["n0", "k0", "n1", "k1", "n2", "k2"]


@pytest.mark.parametrize("share", [0.0, 0.05, 0.25, 0.5, 0.9, 1.0])
def test_the_share_is_kept_in_the_long_run_however_few_are_taken_at_once(share: float) -> None:
    new, known = [queued("n")], [queued("k")]
    chosen = [interleave(new, known, 1, share, number)[0] for number in range(1_000)]
    assert Counter(item.url[-1] for item in chosen)["k"] == pytest.approx(1_000 * share, abs=1)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_neither_idles_while_the_other_has_work(share: float) -> None:
    some = [queued(f"{n}") for n in range(4)]
    assert interleave(some, [], 10, share, 0) == some
    assert interleave([], some, 10, share, 0) == some
    assert len(interleave(some[:1], some[1:], 10, share, 0)) == 4


# ---- pages come again -----------------------------------------------------------------------------------------------


@pytest.mark.heavy
def test_known_pages_come_again_and_are_requested_conditionally(tmp_path: Path) -> None:
    """A13. All pages are found, then all are visited again, with the validators that were kept."""
    world = quiet_world(**WEB, validators__honest=1.0)
    with fresh_web(world, tmp_path) as web:
        web.run(3, SLOT_S)
        visits = Counter(url for _, url in web.taken)
        assert set(web.truth()) <= set(visits)
        assert min(visits[url] for url in web.truth()) >= 2
        outcomes = web.crawl.committer.cells[0].frontier.db.execute("SELECT outcome, count(*) FROM visits GROUP BY 1")
        assert dict(outcomes.fetchall())["304"] > 20
        assert web.refresh.account() is not None


@pytest.mark.heavy
def test_no_slot_is_left_unused_and_no_page_visited_too_often(tmp_path: Path) -> None:
    """With twelve pages on a host and `least_s` of a day, a host is asked twelve times a day and not more."""
    world = quiet_world(**WEB)
    with fresh_web(world, tmp_path, refresh__least_s=DAY_S) as web:
        web.run(5, SLOT_S)
        for times in web.visits().values():
            assert min((after - before for before, after in pairwise(times)), default=DAY_S) >= DAY_S
        last_day = [url for time_s, url in web.taken if time_s > EPOCH_S + 4 * DAY_S]
        assert len(last_day) == pytest.approx(len(web.visits()), abs=4)


@pytest.mark.heavy
@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_can_keep_a_web_fresh(policy: str, tmp_path: Path) -> None:
    """P9. Every host is asked in nearly every slot, or as often as the timetable says."""
    world = quiet_world(**WEB)
    with fresh_web(world, tmp_path, refresh__policy=policy) as web:
        web.run(4, SLOT_S)
        again = len(web.taken) - len(web.visits())
        assert again >= 20
        assert web.freshness(2.0) > 0.2


def test_settings_know_every_policy() -> None:
    (policy,) = (each for each in fields(RefreshSettings) if each.name == "policy")
    assert set(policy.metadata["choices"]) == set(POLICIES)


@pytest.mark.heavy
def test_hosts_that_another_node_owns_now_are_forgotten(tmp_path: Path) -> None:
    """A site that was sent away takes its own pages out of the account; a lost cell takes all of them."""
    with fresh_web(quiet_world(**WEB), tmp_path) as web:
        web.run(3, SLOT_S)
        before = web.refresh.account()
        web.refresh.forget_hosts(0, {min(host.name for host in web.refresh._hosts.values())})
        after = web.refresh.account()
        assert before is not None
        assert after is not None
        assert 0 < after["pages"] < before["pages"]
        web.refresh.forget_hosts(1)
        assert web.refresh.account() == after
        web.refresh.forget_hosts(0)
        assert web.refresh.account() is None
        assert not web.refresh.has_pages


def test_pages_that_other_nodes_keep_count_for_the_limit(tmp_path: Path) -> None:
    with fresh_web(quiet_world(**WEB), tmp_path, limits__pages_kept=1_000) as web:
        web.run(1, SLOT_S)
        assert not web.refresh.is_full
        web.refresh._kept_elsewhere = lambda: KeptElsewhere(1_000)
        assert web.refresh.is_full


# ---- restarts, failures ---------------------------------------------------------------------------------------------


@pytest.mark.heavy
def test_a_restart_goes_on_with_the_due_times_that_were(tmp_path: Path) -> None:
    world = quiet_world(**WEB)

    def due() -> dict[int, float]:
        cell = web.crawl.committer.cells[0].frontier
        lanes = [
            next_pages(cell, slot_of(site_of(host)), host_id, 100, ()) for host_id, host, *_ in hosts_with_pages(cell)
        ]
        return {page.key: page.due_s for lane in lanes for page in lane}

    with fresh_web(world, tmp_path, courtesy__delay_s=SLOT_S) as web:
        web.run(3, SLOT_S)
        before, now_s = due(), web.clock.at_s
    with fresh_web(world, tmp_path, now_s=now_s) as web:
        after = due()
        assert after.keys() == before.keys()
        moved = [key for key in before if abs(after[key] - before[key]) > 0.2 * max(before[key] - now_s, DAY_S)]
        assert len(moved) <= len(before) // 4
        web.run(1, SLOT_S)
        assert len(web.taken) >= 40


@pytest.mark.heavy
def test_a_collection_that_was_crawled_without_is_taken_up(tmp_path: Path) -> None:
    """Pages that a plain crawl left are known: they come again as soon as somebody keeps them fresh."""
    world = quiet_world(**WEB)
    with fresh_web(world, tmp_path) as web:
        web.run(2, SLOT_S)
        db = web.crawl.committer.cells[0].frontier.db
        db.execute("DELETE FROM queue")
        db.execute("UPDATE urls SET lane = 0, rank = 0")
        now_s = web.clock.at_s
    with fresh_web(world, tmp_path, now_s=now_s) as web:
        web.run(1, SLOT_S)
        assert len(web.visits()) >= 20


@pytest.mark.heavy
def test_a_server_that_is_down_for_hours_loses_nothing(tmp_path: Path) -> None:
    """Its pages are tried again and again and stay in the index; then they come again as before."""
    world = quiet_world(**WEB)
    with fresh_web(world, tmp_path) as web:
        web.run(2, SLOT_S)
        web.down = {host.name for host in world.hosts}
        web.run(0.5, SLOT_S)
        db = web.crawl.committer.cells[0].frontier.db
        assert db.execute("SELECT count(*) FROM pages WHERE is_gone").fetchone()[0] == 0
        web.down, failed = set(), len(web.taken)
        web.run(2, SLOT_S)
        assert set(web.truth()) <= {url for _, url in web.taken[failed:]}


@pytest.mark.heavy
@pytest.mark.parametrize("policy", ["edf", "proportional"])
def test_a_commit_that_is_repeated_counts_its_visits_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    """A full disk made pages count twice: a collection was full with half of its pages."""
    world, counted = quiet_world(**WEB), []
    for name in ("calm", "repeated"):
        with fresh_web(world, tmp_path / name, limits__pages_kept=16, refresh__policy=policy) as web:
            if name == "repeated":
                repeat_every_commit(monkeypatch, web.crawl.committer)
            web.run(1, SLOT_S)
            hosts = [(host.name, host.paced, host.slot_s, host.news) for host in web.refresh._hosts.values()]
            counted.append((web.taken, web.refresh.stored_pages, hosts))
    assert counted[0][1] >= 16
    assert counted[0] == counted[1]


def test_a_plain_crawl_does_without_all_this() -> None:
    """Nothing that plans is loaded by a crawl that keeps nothing fresh, nor by its children."""
    loaded = "[name for name in sys.modules if 'refresh' in name or name == 'numpy']"
    script = f"import sys, teia.cli.crawl.run_crawl, teia.crawler.child.read_answer; print({loaded})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_first_difference_of_a_page_may_be_cosmetic(tmp_path: Path) -> None:
    """The text of the first visit is remembered: what changes by itself on two pages is known on all of a host.

    Otherwise the first difference of every page would count as a change, and freshness would be underestimated.
    """
    world = quiet_world(**WEB, changes__cosmetic=1.0)
    with fresh_web(world, tmp_path) as web:
        web.run(0.4, SLOT_S)
        db = web.crawl.committer.cells[0].frontier.db
        ((first,),) = db.execute("SELECT count(*) FROM histories WHERE record = x'' AND mask <> x''")
        assert first > 0
        web.run(2.6, SLOT_S)
        results = Counter(result for (result,) in db.execute("SELECT comparison FROM visits WHERE comparison >= 3"))
    assert results[VisitResult.COSMETIC] > 24
    assert results[VisitResult.CHANGED] <= 2 * len(world.hosts)


# ---- the size limit -------------------------------------------------------------------------------------------------


@pytest.mark.heavy
def test_at_its_size_limit_a_crawl_turns_to_updating(tmp_path: Path) -> None:
    """F2: so many pages are kept, the others wait, and every slot goes to known ones."""
    world = quiet_world(**WEB)
    with fresh_web(world, tmp_path, limits__pages_kept=10) as web:
        web.run(3, SLOT_S)
        assert 10 <= len(web.visits()) <= 12
        assert len(web.taken) > 100
        assert web.refresh.is_full


@pytest.mark.heavy
def test_at_its_size_limit_important_pages_take_the_place_of_others(tmp_path: Path) -> None:
    """F2: the least important pages give way; in the end those that are kept have more links than those that went."""
    world = quiet_world(pages=60, hosts=2, seed=3, sites__theta=0.0)
    with fresh_web(world, tmp_path, limits__pages_kept=16, refresh__weights="in_links") as web:
        web.run(6, SLOT_S)
        db = web.crawl.committer.cells[0].frontier.db
        went = [n for (n,) in db.execute("SELECT in_links FROM urls WHERE state = 3 AND outcome = 'budget'")]
        sql = "SELECT u.in_links FROM urls AS u JOIN pages AS p USING (slot, host_id, key) WHERE u.state = 1"
        kept = [n for (n,) in db.execute(sql)]
        assert went
        assert len(kept) <= 20
        assert sum(kept) / len(kept) > sum(went) / len(went)


# ---- what is said of it ---------------------------------------------------------------------------------------------


@pytest.mark.heavy
def test_reported_freshness_is_true_within_its_error(tmp_path: Path) -> None:
    """By the rates that visits taught, without a look at the truth; twice its error, for rates may be wrong alike."""
    world = quiet_world(pages=80, hosts=3, seed=6, changes__fastest=2.0)
    with fresh_web(world, tmp_path, courtesy__delay_s=SLOT_S) as web:
        web.run(8, SLOT_S)
        now_s = web.clock.at_s
        truth = true_freshness(web.truth().values(), now_s - 1.0, now_s)
        account = web.refresh.account()
    with open_source(open_root(tmp_path / "data"), "main") as source:
        report = freshness(source, 2, ManualClock(now_s))
    assert account is not None
    assert report.fresh is not None
    assert report.fresh_error is not None
    assert report.fresh == pytest.approx(truth, abs=2 * report.fresh_error)
    assert account["fresh"] == pytest.approx(report.fresh, abs=0.1)
    assert account["best"] == pytest.approx(report.best, abs=0.05)
    assert report.pages == 80
    assert len(report.rows) == 2
    assert report.rows[0].slot_s == pytest.approx(SLOT_S)
