"""What sites say of changes, heeded by the live refresh; judged by the lab's truth, without sockets and chance."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teia.crawler.child.messages import decode_result, encode
from teia.crawler.child.read_answer import read
from teia.crawler.keep_fresh.apply_signals import (
    SignalApplier,
    SignalEvidence,
    add_silence,
    no_evidence,
    shift_ages,
    signal_intervals,
    source_interval_s,
)
from teia.crawler.keep_fresh.host_plan import fresh_probabilities, priors_of
from teia.crawler.signals_in.site_hints import note_reported_changes, source_trust
from teia.crawler.verdicts import task_for
from teia.crawler.visit import ActiveVisit
from teia.frontier.cell import site_statements
from teia.frontier.cell.revisits import next_pages, set_due
from teia.frontier.cell.site_statements import StatementSource
from teia.frontier.queue.politeness import DelayTarget
from teia.frontier.queue.schedule import HostQueue
from teia.records import Fetched
from teia.refresh.history import DAY_S
from teia.refresh.rates import Floats
from teia.signals.trust import SignalKind, SignalSource
from teia.urls import site_of, slot_of
from tests.crawler.fresh_crawls import FreshWeb, fresh_web, quiet_world
from tests.crawler.keep_fresh.test_host_plan import SETTINGS, held, planned, seen
from tests.crawler.offline import SITEMAP, offline_crawl

SLOT_S = 4_800.0
DAYS = 8.0
WEB = {"pages": 60, "hosts": 4, "sites__theta": 0.0, "text__paragraphs": 2, "sitemaps__bare": 0.0}
WEB |= {"changes__rates": "zipf:1.5", "changes__fastest": 20.0}
HONEST = {"sitemaps__honest": 0.5, "sitemaps__lying": 0.0}
LYING = {"sitemaps__honest": 0.0, "sitemaps__lying": 0.5}
SEEDS = (2, 4, 6, 7, 8, 9)


@dataclass
class AHost:
    """A host as far as its due times are concerned."""

    slot: int
    host_id: int
    slot_s: float


def sitemap_trust(web: FreshWeb) -> dict[str, SignalSource]:
    """How far each host's sitemap is believed."""
    cell = web.crawl.committer.cells[0].frontier
    found = {}
    for host_id, name in cell.db.execute("SELECT host_id, name FROM hosts"):
        of_host = source_trust(cell, slot_of(site_of(name)), host_id)
        if SignalKind.SITEMAP in of_host:
            found[name] = of_host[SignalKind.SITEMAP]
    return found


def freshness(
    folder: Path, *, signals: bool, seed: int, **web: float
) -> tuple[float, dict[str, SignalSource], FreshWeb]:
    """Keep a web fresh with or without listening, fifteen pages a host and 1.2 visits a page and day."""
    world = quiet_world(**WEB, seed=seed, **web)
    with fresh_web(world, folder / f"{seed}-{signals}", courtesy__delay_s=SLOT_S, refresh__signals=signals) as kept:
        kept.announce_sitemaps()
        kept.run(DAYS, SLOT_S)
        return kept.freshness(DAYS / 3), sitemap_trust(kept), kept


def gain(folder: Path, seed: int, **web: float) -> tuple[float, dict[str, SignalSource], FreshWeb]:
    """How much fresher copies are if sitemaps are listened to, at the same number of requests."""
    without, _, plain = freshness(folder, signals=False, seed=seed, **web)
    heeded, trusted, kept = freshness(folder, signals=True, seed=seed, **web)
    assert len(kept.taken) <= len(plain.taken)
    assert sum(host.sitemap != "none" for host in kept.world.hosts) == 2
    return heeded - without, trusted, kept


@pytest.mark.heavy
def test_honest_sitemaps_on_half_of_the_hosts_make_copies_fresher_at_equal_budget(tmp_path: Path) -> None:
    """The same web, the same slots; only whether the sitemaps are listened to differs."""
    gained, trusted, _ = gain(tmp_path, 4, **HONEST)
    assert gained > 0.015, gained
    assert min(voice.sure_weight for voice in trusted.values()) > 0.5


@pytest.mark.heavy
def test_lying_sitemaps_on_half_of_the_hosts_do_no_harm(tmp_path: Path) -> None:
    """They call every page new and lose their voice. What is left of the difference is that visits fall otherwise."""
    gained, trusted, _ = gain(tmp_path, 4, **LYING)
    assert gained > -0.01, gained
    assert max(voice.sure_weight for voice in trusted.values()) < 0.2


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_on_many_webs_honest_sitemaps_help_and_lying_ones_do_not_harm(tmp_path: Path) -> None:
    """Webs with sitemaps on two of four hosts; single ones differ by chance, so the mean is told."""
    honest = [gain(tmp_path / "honest", seed, **HONEST)[0] for seed in SEEDS]
    lying = [gain(tmp_path / "lying", seed, **LYING)[0] for seed in SEEDS]
    assert min(honest) > 0.01, honest
    assert sum(lying) / len(lying) > -0.004, lying


# ---- what follows from what is said ---------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 8), st.floats(0, 0.98), st.floats(0, 0.98)), min_size=1, max_size=12))
@settings(max_examples=30)
def test_news_never_comes_later_and_silence_never_sooner(pages: list[tuple[int, float, float]]) -> None:
    """Whatever is said of pages of whatever rates: at the same price, evidence moves a page one way.

    But for pages that change too fast to be worth visits: of those that somebody tells of, the few changes that nobody
    does may be worth one.
    """
    columns, plan, found = planned([held(n, seen(changes, 8)) for n, (changes, _, _) in enumerate(pages)], 3_600.0)
    prior, prices = priors_of(repeat(plan.priors), columns.kind), [plan.price] * len(columns)
    belief, recall = (np.array([page[place] for page in pages]) for place in (1, 2))
    none = np.zeros(len(pages))

    def due_after(said: SignalEvidence) -> Floats:
        return signal_intervals(columns, found, prior, prices, SETTINGS, said)

    unsaid = due_after(no_evidence(len(pages)))
    told, silent = due_after(SignalEvidence(none, belief, none)), due_after(SignalEvidence(recall, none, none))
    assert np.all(told <= unsaid + 1e-6)
    assert np.all(told[belief == 0] == unsaid[belief == 0])
    assert np.all(silent[columns.histories.changes < 4] >= unsaid[columns.histories.changes < 4] * (1 - 1e-6))


def test_a_page_seems_older_when_it_is_called_changed_and_younger_when_its_sitemap_is_silent() -> None:
    columns, _, found = planned([held(n, seen(2, 8)) for n in range(3)], 3_600.0)
    now_s = float(columns.fresh_s[0]) + DAY_S
    said = SignalEvidence(np.array([0.0, 0.0, 0.9]), np.array([0.0, 0.9, 0.0]), np.full(3, now_s))
    plain, called, silent = fresh_probabilities(shift_ages(columns, found, said, now_s), found, now_s)
    assert called < plain < silent
    assert called == pytest.approx(0.1 * plain), "a report that is believed by nine tenths leaves a tenth"


def test_a_sitemap_is_read_the_more_often_the_more_it_tells_and_never_too_often() -> None:
    _, plan, _ = planned([held(n, seen(n % 5, 8)) for n in range(40)], 3_600.0)
    trusted = SignalSource(tested=100, changed=100, expected=60, announced=100)
    doubtful = SignalSource(tested=100, changed=30, expected=80, announced=30)
    speaker = StatementSource(1, 1, SignalKind.SITEMAP, 0.0, 40)
    often, seldom = (source_interval_s(plan, speaker, voice, 3_600.0, SETTINGS) for voice in (trusted, doubtful))
    assert often is not None
    assert seldom is not None
    assert 4 * 3_600.0 <= often < seldom
    assert source_interval_s(None, speaker, trusted, 3_600.0, SETTINGS) is None


def test_what_is_not_believed_is_counted(tmp_path: Path) -> None:
    """Dates in the future, dates that are none, pages of another site; what is left is kept."""
    here = "http://a.test"
    lines = [(f"{here}/1", "2023-11-14"), (f"{here}/2", "2031-01-01"), (f"{here}/3", "yesterday"), (f"{here}/4", "")]
    lines += [("http://b.test/1", "2023-11-14")]
    entries = "".join(f"<url><loc>{url}</loc><lastmod>{when}</lastmod></url>" for url, when in lines)
    web = {f"{here}/sitemap.xml": f"<urlset>{entries}</urlset>", f"{here}/1": "<p>one"}
    with offline_crawl(web, tmp_path, f"{here}/sitemap.xml", refresh__keep=True) as crawl:
        crawl.run(1)
        cell = next(cell for cell in crawl.crawl.committer.cells if cell.frontier.known)
        ((slot, host_id),) = cell.frontier.db.execute("SELECT slot, host_id FROM hosts WHERE name = 'a.test'")
        voice = source_trust(cell.frontier, slot, host_id)[SignalKind.SITEMAP]
        assert (voice.future, voice.broken, voice.foreign) == (1, 1, 1)
        said = site_statements.statements_of_pages(cell.frontier, slot, host_id, -(1 << 63), (1 << 63) - 1)
        assert [each.reported_s for each in said] == [1_699_920_000.0]


def test_a_sitemap_from_a_cache_was_read_when_its_copy_was_made(tmp_path: Path) -> None:
    """C7. What it says of changes since then is not known; nor is that forgotten which a later look had told."""
    url, stamp = "http://a.test/sitemap.xml", "<lastmod>2023-11-14</lastmod>"
    body = f"<urlset><url><loc>http://a.test/1</loc>{stamp}</url></urlset>"
    with offline_crawl({}, tmp_path, url, refresh__keep=True) as crawl:
        cell = next(cell for cell in crawl.crawl.committer.cells if cell.frontier.known).frontier
        ((slot, host_id),) = cell.db.execute("SELECT slot, host_id FROM hosts WHERE name = 'a.test'")
        queue, now_s = HostQueue("a.test", host_id, 0, 0, DelayTarget("a.test")), crawl.clock.now_s()
        (item,) = cell.next_urls(host_id, "a.test", 1, (), now_s)
        for status, before_s, seen_before_s in (
            (200, 7_200.0, 7_200.0),
            (304, 3_600.0, 3_600.0),
            (200, 9_000.0, 3_600.0),
        ):
            head = SITEMAP.replace(b"200 OK", b"%d OK" % status)
            fetched = Fetched(url, str(status), status, now_s - before_s, now_s, head=head, body=body.encode())
            visit = ActiveVisit(queue, item, fetched=fetched, from_cache=True)
            visit.result = decode_result(read(encode(task_for(crawl.crawl.read_settings, "page", item, fetched))))
            note_reported_changes(cell, visit, now_s)
            (speaker,) = site_statements.sources_of(cell, slot, host_id)
            assert speaker.seen_s == now_s - seen_before_s


def test_who_speaks_for_a_host_is_read_once_however_many_of_its_pages_are_settled(tmp_path: Path) -> None:
    columns, plan, found = planned([held(n, seen(n % 5, 8)) for n in range(40)], 3_600.0)
    here, other = AHost(1, 1, 3_600.0), AHost(1, 2, 3_600.0)
    with offline_crawl({}, tmp_path, "http://a.test/") as crawl:
        frontier = crawl.crawl.committer.cells[0].frontier
        site_statements.note_source_read(
            frontier, 1, StatementSource(int(columns.key[3]), 1, SignalKind.SITEMAP, 0.0, 40)
        )
        asked: list[str] = []
        frontier.db.set_trace_callback(asked.append)
        hosts, prior = [here, other] * 20, priors_of(repeat(plan.priors), columns.kind)
        SignalApplier(SETTINGS).intervals(frontier, hosts, [plan] * 40, columns, found, prior)
        frontier.db.set_trace_callback(None)
    assert sum("FROM statement_sources" in sql for sql in asked) == 2


@pytest.mark.heavy
def test_a_host_whose_sitemaps_stand_in_front_is_not_left_idle(tmp_path: Path) -> None:
    """Sitemaps are not read early; pages behind them are, however many of the former there are."""
    with fresh_web(quiet_world(pages=48, hosts=1, seed=3), tmp_path) as kept:
        kept.run(3, 3_600.0)
        cell = kept.crawl.committer.cells[0]
        ((host_id, name),) = cell.frontier.db.execute("SELECT host_id, name FROM hosts")
        slot, frontier, now_s = slot_of(site_of(name)), cell.frontier, kept.clock.at_s
        known = [page.key for page in next_pages(frontier, slot, host_id, 100, ())]
        speaking, silent = known[:32], known[32:]
        for days, keys in ((1, speaking), (2, silent)):
            for key in keys:
                set_due(frontier, (slot, host_id, key), now_s + days * DAY_S)
        for key in speaking:
            source = StatementSource(key, host_id, SignalKind.SITEMAP, now_s, 1)
            site_statements.note_source_read(frontier, slot, source)
        kept.clock.at_s += 3_600.0
        refill = kept.refresh.next_urls(cell, HostQueue(name, host_id, cell.number, 0, DelayTarget(name)), 8, ())
        assert len(refill.items) == 8
        assert {item.key for item in refill.items} <= set(silent)


def test_a_cell_of_before_gets_the_tables_and_keeps_what_it_has(tmp_path: Path) -> None:
    web = {"http://a.test/": "<p>one"}
    with offline_crawl(web, tmp_path, "http://a.test/") as crawl:
        crawl.run(1)
        for cell in crawl.crawl.committer.cells:
            for name in ("site_statements", "statement_sources", "signal_trust"):
                cell.frontier.db.execute(f"DROP TABLE {name}")
    with offline_crawl(web, tmp_path, "http://a.test/") as crawl:
        assert all(site_statements.has_tables(cell.frontier) for cell in crawl.crawl.committer.cells)
        assert sum(cell.frontier.known for cell in crawl.crawl.committer.cells) == 1


def test_pages_that_no_source_reports_are_known_to_be_quiet() -> None:
    """Reported pages are visited and others are not: by visits alone, every page would seem to change often."""
    columns = planned([held(n, seen(1, 2)) for n in range(3)], SLOT_S)[0]
    later_s = float(columns.fresh_s[0]) + 4 * DAY_S
    evidence = SignalEvidence(np.array([0.0, 0.9, 0.9]), np.array([0.0, 0.0, 0.8]), np.full(3, later_s - DAY_S))
    quiet_s = add_silence(columns, evidence, later_s).histories.quiet_s - columns.histories.quiet_s
    assert quiet_s == pytest.approx([0.0, 0.9 * 3 * DAY_S, 0.0])
    assert add_silence(columns, no_evidence(3), later_s) is columns
