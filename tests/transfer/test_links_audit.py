"""In-links: how many pages link to a URL now, however often they are visited; and counted anew from what is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from teia.cli.data.audit import app
from teia.clock import WallClock
from teia.errors import StoreError
from teia.frontier.cell import in_link_counts
from teia.frontier.cell.cell import FrontierCell
from teia.lab.world import truth
from teia.store.root import Root, open_root
from teia.transfer.audits import AuditKind, audit, last_audit
from teia.transfer.links_audit import audit_links, repair_links
from teia.transfer.read_all import known_urls
from teia.urls import key_of
from tests.crawler.fresh_crawls import FreshWeb, fresh_web, quiet_world
from tests.crawler.offline import OfflineCrawl, offline_crawl

SLOT_S = 3_600.0
A, B, C, D = (f"http://{name}.test/" for name in "abcd")


def page(name: str, *links: str, head: str = "") -> str:
    anchors = "".join(f'<a href="{link}">{link}</a> ' for link in links)
    words = " ".join(f"{name}{number}" for number in range(12))
    return f"<html><head><title>{name}</title>{head}</head><body><p>{words}</p>{anchors}</body></html>"


def in_links(folder: Path) -> dict[str, int]:
    return {each["url"]: each["in_links"] for each in known_urls(open_root(folder / "data"), "main")}


def root_of(folder: Path) -> Root:
    return open_root(folder / "data")


# ---- visits that bring a body ---------------------------------------------------------------------------------------


def test_a_page_counts_once_for_each_url_however_often_it_is_read(tmp_path: Path) -> None:
    web = {A: page("a", B, B, A, C), B: page("b", A), C: page("c", A, B)}
    with offline_crawl(web, tmp_path, A) as crawl:
        crawl.run()
        before = in_links(tmp_path)
        for _ in range(3):
            crawl.revisit(A, B, C)
    assert before == in_links(tmp_path) == {A: 2, B: 2, C: 1}
    assert audit_links(root_of(tmp_path), "main").differences == 0


def test_links_that_a_page_has_no_more_are_taken_back_and_new_ones_added(tmp_path: Path) -> None:
    web = {A: page("a", B, C), B: page("b", C), C: page("c"), D: page("d")}
    with offline_crawl(web, tmp_path, A) as crawl:
        crawl.run()
        web[A] = page("a now", B, D)
        crawl.revisit(A)
        assert in_links(tmp_path) == {A: 0, B: 1, C: 1, D: 1}
        web[B] = page("b now")
        crawl.revisit(B)
        assert in_links(tmp_path) == {A: 0, B: 1, C: 0, D: 1}
        web[A] = page("a again", C)
        crawl.revisit(A)
    assert in_links(tmp_path) == {A: 0, B: 0, C: 1, D: 0}
    assert audit_links(root_of(tmp_path), "main").violations == 0


def test_a_page_that_is_gone_links_to_nothing_and_one_that_fails_to_what_it_did(tmp_path: Path) -> None:
    web = {A: page("a", B, C), B: page("b", C), C: page("c", D), D: page("d")}
    with offline_crawl(web, tmp_path, A) as crawl:
        crawl.run()
        was, web[B] = web[B], "503"
        crawl.revisit(B)
        assert in_links(tmp_path)[C] == 2, "nobody knows better"
        web[B] = was
        del web[C]
        crawl.revisit(C)
        assert in_links(tmp_path) == {A: 0, B: 1, C: 2, D: 0}
        web[C] = page("c", D)
        crawl.revisit(C)
    assert in_links(tmp_path)[D] == 1
    assert audit_links(root_of(tmp_path), "main").violations == 0


@pytest.mark.parametrize(
    ("markup", "counts"),
    [
        (page("nofollow", head='<meta name="robots" content="nofollow">') + f'<a href="{C}">c</a>', False),
        (f'<a rel="nofollow" href="{C}">c</a>', False),
        (f'<a rel="nofollow" href="{C}">c</a><a href="{C}">c</a>', True),
        (f"-> {C}", False),
        (f'<link rel="canonical" href="{C}">', False),
        (f'<link rel="canonical" href="{C}"><a rel="nofollow" href="{C}">c</a>', False),
        (f'<iframe src="{C}"></iframe>', True),
        (f"<urlset><url><loc>{C}</loc></url></urlset>", False),
        (f"<rss version='2.0'><channel><item><title>c</title><link>{C}</link></item></channel></rss>", False),
    ],
)
def test_what_counts_is_what_is_followed(tmp_path: Path, markup: str, *, counts: bool) -> None:
    """A redirect leads and does not link; nor does what is a list, a page's own name, or not endorsed."""
    with offline_crawl({A: page("a", B, C), B: markup, C: page("c")}, tmp_path, A) as crawl:
        crawl.run()
        crawl.revisit(B)
    assert in_links(tmp_path)[C] == 1 + counts
    assert audit_links(root_of(tmp_path), "main").violations == 0


def test_links_found_too_deep_count_when_a_shorter_path_to_their_page_is_found(tmp_path: Path) -> None:
    """T1. B is two hops away, and then one: what it links to had been too deep."""
    web = {A: page("a", C), C: page("c", B), B: page("b", D, A), D: page("d")}
    with offline_crawl(web, tmp_path, A, scope__max_depth=2) as crawl:
        crawl.run()
        assert in_links(tmp_path) == {A: 0, B: 1, C: 1}
        web[A] = page("a now", C, B)
        crawl.revisit(A)
        crawl.run()
    assert in_links(tmp_path) == {A: 1, B: 2, C: 1, D: 1}
    assert audit_links(root_of(tmp_path), "main").violations == 0


def test_what_has_fewer_links_waits_longer(tmp_path: Path) -> None:
    """F1. Two pages wait; the one that is no longer linked to by most is taken last."""
    often, seldom = "http://x.test/often", "http://x.test/seldom"
    web = {A: page("a", B, C, often), B: page("b", often), C: page("c", seldom)}
    with offline_crawl(web, tmp_path, A, collection__order="backlinks") as crawl:
        for host in ("a.test", "b.test", "c.test"):
            crawl.visit_next(host)
        assert crawl.next_url("x.test") == often
        web[A], web[B] = page("a now", seldom), page("b now")
        crawl.revisit_only(A, B)
        assert crawl.next_url("x.test") == seldom


# ---- a lab's truth --------------------------------------------------------------------------------------------------


def true_in_links(web: FreshWeb) -> dict[str, int]:
    """How many pages link to each URL by the truth, as each page was when it was last looked at."""
    last = {url: time_s for time_s, url in web.taken}
    count: Counter[str] = Counter(dict.fromkeys(last, 0))
    for url, time_s in last.items():
        line = truth.find_line(web.world, url, time_s)
        assert line is not None
        count.update({link for link in line.links if link not in line.nofollow and link != url})
    return dict(count)


def of_known(folder: Path, true: Mapping[str, int]) -> dict[str, int]:
    return {url: true.get(url, 0) for url in in_links(folder)}


@pytest.mark.heavy
def test_in_links_of_pages_that_are_kept_fresh_are_the_truth_at_every_audit(tmp_path: Path) -> None:
    """Twenty visits a page, in a web whose links come and go, over three cells; some hosts answer 304."""
    world = quiet_world(
        pages=18,
        hosts=3,
        seed=3,
        sites__theta=0.0,
        changes__fastest=3.0,
        links__changing=0.6,
        links__nofollow=0.1,
    )
    counts, moved = [], 0
    with fresh_web(world, tmp_path, collection__cells=3, refresh__policy="round-robin") as web:
        while not web.visits() or min(map(len, web.visits().values())) < 20:
            web.run(1, SLOT_S)
            found, true = in_links(tmp_path), true_in_links(web)
            assert found == of_known(tmp_path, true)
            audited = audit_links(root_of(tmp_path), "main")
            assert (audited.differences, audited.violations, audited.checked) == (0, 0, len(found)), audited.details
            moved += bool(counts) and counts[-1] != found
            counts.append(found)
    assert len(web.visits()) >= 18
    assert moved >= 3, "links came and went"


# ---- the audit ------------------------------------------------------------------------------------------------------


def crawled(folder: Path, **settings: object) -> OfflineCrawl:
    web = {A: page("a", B, C), B: page("b", A, C), C: page("c", A, B, D), D: page("d", A)}
    with offline_crawl(web, folder, A, **settings) as crawl:
        crawl.run()
        return crawl


def write(folder: Path, sql: str) -> None:
    for each in root_of(folder).collection("main").cells():
        cell = FrontierCell(each.frontier)
        cell.db.execute(sql)
        cell.close()


def test_an_audit_finds_a_wrong_count_and_a_repair_fixes_it(tmp_path: Path) -> None:
    crawled(tmp_path)
    write(tmp_path, f"UPDATE urls SET in_links = 767 WHERE key = {key_of(B)}")
    found = audit_links(root_of(tmp_path), "main")
    assert (found.differences, found.violations) == (1, 1)
    assert found.details == (f"{B}: 767 in-links stored, 2 pages link to it",)
    mended = repair_links(root_of(tmp_path), "main", WallClock())
    assert (mended.differences, mended.repaired) == (0, 1)
    assert in_links(tmp_path) == {A: 3, B: 2, C: 2, D: 1}


def test_an_audit_finds_links_that_are_counted_and_do_not_exist(tmp_path: Path) -> None:
    crawled(tmp_path)
    row = in_link_counts.pack({"d.test": [key_of(D)]})
    write(tmp_path, f"UPDATE outlinks SET targets = x'{row.hex()}' WHERE key = {key_of(B)}")
    found = audit_links(root_of(tmp_path), "main")
    assert f"{B}: counted links are missing in its capture" in found.details
    assert found.violations >= 1
    mended = repair_links(root_of(tmp_path), "main", WallClock())
    assert mended.violations == 0
    assert in_links(tmp_path) == {A: 3, B: 2, C: 2, D: 1}


def test_a_folder_of_before_is_audited_by_its_copies_and_repaired(tmp_path: Path) -> None:
    """An older teia kept nothing of what it counted, and counted every visit."""
    crawled(tmp_path)
    write(tmp_path, "DROP TABLE outlinks")
    write(tmp_path, "DELETE FROM meta WHERE name = 'outlinks'")
    write(tmp_path, "UPDATE urls SET in_links = 3 * in_links")
    found = audit_links(root_of(tmp_path), "main")
    assert (found.differences, found.uncertain) == (4, 4)
    mended = repair_links(root_of(tmp_path), "main", WallClock())
    assert (mended.differences, mended.uncertain, mended.repaired) == (0, 0, 4)
    assert in_links(tmp_path) == {A: 3, B: 2, C: 2, D: 1}


def test_a_folder_of_before_does_not_grow_even_if_nobody_repairs_it(tmp_path: Path) -> None:
    web = {A: page("a", B, C), B: page("b", A, C), C: page("c", A)}
    with offline_crawl(web, tmp_path, A) as crawl:
        crawl.run()
    before = in_links(tmp_path)
    write(tmp_path, "DELETE FROM outlinks")
    write(tmp_path, "DELETE FROM meta WHERE name = 'outlinks'")
    with offline_crawl(web, tmp_path, A) as crawl:
        crawl.revisit(A, B, C)
        assert in_links(tmp_path) == before
        web[A] = page("a now", B)
        crawl.revisit(A)
        assert in_links(tmp_path)[C] == 1


def test_nothing_is_repaired_beside_a_crawl(tmp_path: Path) -> None:
    web = {A: page("a")}
    with offline_crawl(web, tmp_path, A), pytest.raises(StoreError):
        repair_links(root_of(tmp_path), "main", WallClock())


def test_links_on_their_way_between_cells_count_as_arrived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The crawler dies between the page's transaction and the delivery of what it added and took back."""
    web = {A: page("a", B, C), B: page("b"), C: page("c"), D: page("d", B)}
    with offline_crawl(web, tmp_path, A, D) as crawl:
        crawl.run()
        before = in_links(tmp_path)
        monkeypatch.setattr(crawl.crawl.committer, "deliver", lambda done: None)
        for url, links in ((A, (D, C)), (B, (A, C)), (C, (A, B)), (D, ())):
            web[url] = page("now", *links)
            crawl.revisit_only(url)
        between = in_links(tmp_path)
        assert audit_links(root_of(tmp_path), "main").violations == 0
    with offline_crawl(web, tmp_path, A, D):
        assert audit_links(root_of(tmp_path), "main").violations == 0
    after = in_links(tmp_path)
    assert after == {A: 2, B: 1, C: 2, D: 1}
    assert len({tuple(sorted(each.items())) for each in (before, between, after)}) == 3, "some were on their way"


def test_command_says_how_many_differ(tmp_path: Path) -> None:
    crawled(tmp_path)
    call = ["links", "--data", str(tmp_path / "data")]
    done = CliRunner().invoke(app, [*call, "--json"])
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1].startswith('{"checked": 4, "violations": 0, "details": [], "differences": 0')
    write(tmp_path, f"UPDATE urls SET in_links = 9 WHERE key = {key_of(C)}")
    assert CliRunner().invoke(app, call).exit_code == 1
    last = last_audit(root_of(tmp_path).collection("main"), AuditKind.LINKS)
    assert last is not None
    assert last.violations == 1
    done = CliRunner().invoke(app, [*call, "--repair"])
    assert (done.exit_code, done.stdout.splitlines()[0]) == (0, "1 counts corrected")
    assert audit(root_of(tmp_path), "main", AuditKind.LINKS, WallClock()).violations == 0
