"""A crawl told to go by other settings while it runs (A10), on small webs; the server's log is the judge."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from teia.clock import WallClock
from teia.collections.settings import SettingsChange, change, parse_edit, saved
from teia.crawler.lookup import Lookup
from teia.crawler.running_collection import CrawlState
from teia.errors import ConfigError, StoreError
from teia.lab.server.witness import early_requests
from teia.lab.world.exchange import WorldAnswer, WorldRequest
from teia.store.root import Root
from teia.transfer.read_all import audit_fetch_log, known_urls
from teia.views.why_waiting import why_waiting
from tests.crawler.webs import Page, ScriptedWeb, crawl_web, html, robots
from tests.waiting import until

PAGES = 30
DELAY_S = 0.05


def tell(root: Root, *edits: str, name: str = "main") -> SettingsChange:
    return change(root, name, [parse_edit(edit) for edit in edits], WallClock())


@dataclass
class Gate:
    """A page whose answer tells a test that the crawl has come so far, and when it may go on."""

    links: Sequence[str]
    seen: list[float] = field(default_factory=list)

    def __call__(self, request: WorldRequest) -> WorldAnswer:
        self.seen.append(time.monotonic())
        return html(*self.links)

    def wait(self) -> None:
        until(lambda: self.seen, "the crawl comes here")


def site(*more: str, pages: int = PAGES) -> dict[str, Page]:
    """A site whose home page leads to all of its pages."""
    names = [f"/{number}" for number in range(pages)]
    texts = {name: f"Page {name} speaks of {' '.join(f'thing{name[1:]}{n}' for n in range(9))}." for name in names}
    return {"/": html(*names, *more), **{name: html(text=text) for name, text in texts.items()}}


def paths(asked: list[str], host: str) -> list[str]:
    """What was asked of a host, but for pages that are only asked for to see what is not there."""
    return [each.removeprefix(host) for each in asked if each.startswith(f"{host}/") and "/teia-probe-" not in each]


# ---- blocks ---------------------------------------------------------------------------------------------------------


def test_a_blocked_host_is_not_requested_any_more_and_its_urls_say_why(tmp_path: Path) -> None:
    gate = Gate([f"/{number}" for number in range(PAGES)])
    web = ScriptedWeb({"a.test": site("http://b.test:{port}/"), "b.test": {**site(), "/": gate}})
    blocked_at: list[float] = []

    def meanwhile(root: Root) -> None:
        gate.wait()
        changed = tell(root, "exclude+=domain:b.test")
        assert (changed.running, changed.now, changed.later) == (True, ("scope.exclude",), ())
        blocked_at.append(WallClock().now_s())

    crawled = crawl_web(with_port(web), tmp_path, "a.test/", meanwhile=meanwhile)
    assert crawled.crawls[0].state is CrawlState.FINISHED
    assert len(paths(crawled.requested(), "a.test")) == PAGES + 2
    late = [entry for entry in crawled.entries if entry.host == "b.test" and entry.start_s > blocked_at[0]]
    assert late == []
    outcomes = crawled.outcomes()
    refused = [url for url, outcome in outcomes.items() if url.startswith("b.test/") and outcome == "out_of_scope"]
    assert len(refused) > PAGES / 2
    root = Root(crawled.data)
    with Lookup(root, "main") as lookup:
        url = next(each["url"] for each in known_urls(root, "main") if each["outcome"] == "out_of_scope")
        entry = lookup.find(url)
        assert entry is not None
        assert why_waiting(lookup, entry, 0.0) == "it is out of scope: domain:b.test excludes it"


def with_port(web: ScriptedWeb) -> ScriptedWeb:
    """Let links name the port they are served at, which is only known when the lab runs."""

    def filled(page: Page) -> Page:
        def answer(request: WorldRequest) -> WorldAnswer:
            made = page(request) if callable(page) else page
            port = request.headers["host"].rpartition(":")[2]
            return WorldAnswer(made.status, made.headers, made.body.replace(b"{port}", port.encode()))

        return answer

    pages = {host: {path: filled(page) for path, page in of.items()} for host, of in web.pages.items()}
    return ScriptedWeb(pages, web.addresses)


def test_urls_come_back_when_the_rule_goes_and_nothing_is_missing_in_the_end(tmp_path: Path) -> None:
    gate = Gate([f"/{number}" for number in range(PAGES)])
    web = ScriptedWeb({"a.test": {**site(), "/": gate}})
    refused: list[int] = []

    def meanwhile(root: Root) -> None:
        gate.wait()
        tell(root, "exclude+=host:a.test")

        def are_refused() -> int:
            number = sum(each["outcome"] == "out_of_scope" for each in known_urls(root, "main"))
            return number if number > PAGES / 2 else 0

        refused.append(until(are_refused, "most of its URLs are refused"))
        tell(root, "exclude-=host:a.test")

    crawled = crawl_web(web, tmp_path, "a.test/", "keep.test/", meanwhile=keep_open(web, meanwhile))
    assert refused
    assert set(paths(crawled.requested(), "a.test")) == {"/robots.txt", *web.pages["a.test"]}
    assert {outcome for url, outcome in crawled.outcomes().items() if url.startswith("a.test")} == {"200"}


def keep_open(web: ScriptedWeb, then: Callable[[Root], None]) -> Callable[[Root], None]:
    """Give the crawl a slow page elsewhere, so that it does not end while the test talks to it."""
    waiting = [True]

    def slow(request: WorldRequest) -> WorldAnswer:
        until = time.monotonic() + 5
        while waiting and time.monotonic() < until:
            return WorldAnswer(503, b"Retry-After: 1\r\n", b"")
        return html()

    web.pages["keep.test"] = {"/": slow}  # type: ignore[index]
    web.__post_init__()

    def meanwhile(root: Root) -> None:
        try:
            then(root)
        finally:
            waiting.clear()

    return meanwhile


def test_what_is_changed_while_nobody_crawls_holds_from_the_next_start(tmp_path: Path) -> None:
    web = ScriptedWeb({"a.test": site()})
    first = crawl_web(web, tmp_path, "a.test/", limits__pages=3)
    root = Root(first.data)
    changed = tell(root, "exclude+=regex:/1[0-9]$", "max-pages=0")
    assert (changed.running, changed.now) == (False, ())
    second = crawl_web(web, tmp_path, "a.test/", port=first.port)
    assert {url for url, outcome in second.outcomes().items() if outcome == "out_of_scope"} == {
        f"a.test/{number}" for number in range(10, 20)
    }
    tell(root, "exclude=")
    third = crawl_web(web, tmp_path, "a.test/", port=first.port)
    assert sorted(paths(third.requested(), "a.test")) == [f"/{number}" for number in range(10, 20)]


def test_queued_urls_that_a_run_left_out_are_back_in_the_next(tmp_path: Path) -> None:
    """Flags of a run hold for it alone: what it left out is fetched by the next one, and nothing twice."""
    web = ScriptedWeb({"a.test": site()})
    first = crawl_web(web, tmp_path, "a.test/", limits__pages=3)
    again = {"port": first.port, "limits__pages": 0}
    second = crawl_web(web, tmp_path, "a.test/", scope__exclude=["host:a.test"], **again)
    assert second.requested() == []
    third = crawl_web(web, tmp_path, "a.test/", **again)
    asked = paths([*first.requested(), *third.requested()], "a.test")
    assert sorted(asked) == sorted({"/robots.txt", *web.pages["a.test"]})


def test_a_seed_whose_address_was_blocked_is_fetched_once_its_network_is_allowed(tmp_path: Path) -> None:
    web = ScriptedWeb({"a.test": site(pages=1)})
    first = crawl_web(web, tmp_path, "a.test/", fetch__allow_nets=["127.77.255.90/32"])
    assert first.requested() == []
    assert set(first.outcomes().values()) == {"blocked_address"}
    second = crawl_web(web, tmp_path, "a.test/", port=first.port)
    assert sorted(paths(second.requested(), "a.test")) == ["/", "/0", "/robots.txt"]


# ---- more ------------------------------------------------------------------------------------------------------------


def test_a_domain_added_by_hand_is_crawled_at_once_and_kept_in_the_file(tmp_path: Path) -> None:
    web = ScriptedWeb({"a.test": site(), "b.test": site(pages=3)})
    ports: list[int] = []

    def meanwhile(root: Root) -> None:
        (seed,) = saved(root, "main").config.collection.seeds
        port = seed.rpartition(":")[2].rstrip("/")
        ports.append(int(port))
        tell(root, f"collection.seeds+=http://b.test:{port}/", "scope+=domain:b.test")

    crawled = crawl_web(web, tmp_path, "a.test/", scope__include=["host:a.test"], meanwhile=meanwhile)
    assert set(paths(crawled.requested(), "b.test")) == {"/robots.txt", "/", "/0", "/1", "/2"}
    config = saved(Root(crawled.data), "main").config
    assert config.scope.include == ("host:a.test", "domain:b.test")
    assert f"http://b.test:{ports[0]}/" in config.collection.seeds


def test_a_mistyped_seed_leaves_with_its_correction(tmp_path: Path) -> None:
    busy = WorldAnswer(503, b"Content-Type: text/html\r\n", b"later")
    web = ScriptedWeb({"a.test": site(pages=2), "b.test": {"/": busy}})
    with socket.create_server(("127.77.3.3", 0)) as free:
        typo = f"http://127.77.3.3:{free.getsockname()[1]}/"

    def has_failed(root: Root, url: str) -> bool:
        with Lookup(root, "main") as lookup:
            entry = lookup.find(url)
            return entry is not None and entry.failures > 0

    def meanwhile(root: Root) -> None:
        other = saved(root, "main").config.collection.seeds[1]
        until(lambda: has_failed(root, other), "the other seed is tried again in an hour")
        tell(root, f"collection.seeds+={typo}")
        until(lambda: has_failed(root, typo), "the mistyped seed has failed")
        tell(root, f"collection.seeds-={typo}")
        tell(root, "exclude+=host:b.test")  # the crawl waited for it until now

    # The next try would be in an hour; the crawl ends without it.
    crawled = crawl_web(
        web, tmp_path, "a.test/", "b.test/", meanwhile=meanwhile, within_s=60, courtesy__retry_wait_s=3_600.0
    )
    assert crawled.crawls[0].state is CrawlState.FINISHED
    assert crawled.crawls[0].counts.failed_seeds == {}
    assert crawled.outcomes()["127.77.3.3/"] == "out_of_scope"


def test_limits_of_a_running_crawl_are_raised_and_lowered(tmp_path: Path) -> None:
    gate = Gate([f"/{number}" for number in range(PAGES)])
    web = ScriptedWeb({"a.test": {**site(), "/": gate}})

    def meanwhile(root: Root) -> None:
        gate.wait()
        tell(root, "max-pages=5")

    crawled = crawl_web(web, tmp_path, "a.test/", meanwhile=meanwhile, courtesy__delay_s=0.1)
    assert crawled.crawls[0].state is CrawlState.LIMIT
    assert 5 <= crawled.crawls[0].counts.pages <= 10


def test_a_longer_delay_holds_at_once_and_the_audit_knows_of_both(tmp_path: Path) -> None:
    gate = Gate([f"/{number}" for number in range(12)])
    web = ScriptedWeb({"a.test": {**site(pages=12), "/": gate}})
    changed_at: list[float] = []

    def meanwhile(root: Root) -> None:
        gate.wait()
        tell(root, "delay=0.4")
        changed_at.append(WallClock().now_s())

    crawled = crawl_web(web, tmp_path, "a.test/", courtesy__delay_s=DELAY_S, meanwhile=meanwhile)
    after = [entry for entry in crawled.entries if entry.start_s > changed_at[0]]
    assert len(after) > 5
    assert early_requests(after, 0.4, lambda entry: entry.host) == []
    root = Root(crawled.data)
    assert audit_fetch_log(root, "main", saved(root, "main").config.courtesy).violations == 0


def test_no_delay_shortens_a_crawl_delay(tmp_path: Path) -> None:
    gate = Gate([f"/{number}" for number in range(6)])
    pages = {**site(pages=6), "/": gate, "/robots.txt": robots("User-agent: *\nCrawl-delay: 0.5")}

    def meanwhile(root: Root) -> None:
        gate.wait()
        tell(root, "delay=0")

    crawled = crawl_web(ScriptedWeb({"a.test": pages}), tmp_path, "a.test/", meanwhile=meanwhile)
    assert len(paths(crawled.requested(), "a.test")) == 8
    assert early_requests(crawled.entries, 0.5, lambda entry: entry.host) == []


def test_a_list_given_again_is_read_again(tmp_path: Path) -> None:
    gate = Gate(["/1", "/2", "/3"])
    web = ScriptedWeb({"a.test": {**site(), "/": gate}})
    blocked = tmp_path / "blocked.txt"
    blocked.write_text("# nothing yet\n")

    def meanwhile(root: Root) -> None:
        gate.wait()
        blocked.write_text("regex:/[0-9]$\n")
        tell(root, f"exclude+=list:{blocked}")
        blocked.unlink()

    slow = {"courtesy__delay_s": 0.5}
    crawled = crawl_web(web, tmp_path, "a.test/", scope__exclude=[f"@{blocked}"], meanwhile=meanwhile, **slow)
    assert paths(crawled.requested(), "a.test") == ["/robots.txt", "/"]


# ---- what is refused ------------------------------------------------------------------------------------------------


def test_a_change_that_means_nothing_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    crawled = crawl_web(ScriptedWeb({"a.test": site(pages=1)}), tmp_path, "a.test/")
    root = Root(crawled.data)
    before = root.collection("main").config.read_bytes()
    for edit in ("exclude+=nonsense", "collection.seeds+=ftp://x/", "exclude+=list:/no/such/file", "delay=-1"):
        with pytest.raises(ConfigError):
            tell(root, edit)
    assert root.collection("main").config.read_bytes() == before


def test_a_crawl_that_cannot_take_a_change_says_so(tmp_path: Path) -> None:
    """The list is right where it is asked for; the crawl finds no place for its copy."""
    gate = Gate(["/1"])
    web = ScriptedWeb({"a.test": {**site(), "/": gate}})
    blocked = tmp_path / "blocked.txt"
    blocked.write_text("b.test\n")

    def meanwhile(root: Root) -> None:
        gate.wait()
        root.collection("main").lists.write_text("a file in the way")
        with pytest.raises(StoreError, match=r"rejected it: .*lists: cannot be created"):
            tell(root, f"exclude+=list:{blocked}")

    crawl_web(web, tmp_path, "a.test/", courtesy__delay_s=0.5, meanwhile=meanwhile)


def test_what_is_shared_by_collections_that_run_together_waits_for_the_next_start(tmp_path: Path) -> None:
    gate = Gate(["/1"])
    web = ScriptedWeb({"a.test": {**site(), "/": gate}})

    def meanwhile(root: Root) -> None:
        gate.wait()
        assert tell(root, "delay=1", name="one").now == ("courtesy.delay_s",)
        assert tell(root, "delay=1", "exclude+=query:yes", name="two").later == ("courtesy.delay_s",)

    slow = {"courtesy__delay_s": 0.3}
    crawl_web(web, tmp_path, "a.test/", collections={"one": {}, "two": {}}, meanwhile=meanwhile, **slow)
