"""Would this URL be crawled? What the tester says is what the crawler then does (A8, acceptance 10)."""

from __future__ import annotations

from pathlib import Path

import pytest

from teia.collections.preview_url import UrlTester
from teia.collections.settings import saved
from teia.config.sections import CollectionSettings, Config, CourtesySettings, ScopeSettings
from teia.crawler.lookup import Lookup
from teia.lab.world.exchange import WorldAnswer, WorldRequest
from teia.store.root import open_root
from teia.transfer.read_all import known_urls
from teia.views.why_waiting import why_unknown
from tests.crawler.webs import Page, ScriptedWeb, crawl_web, html, robots, text_of

INCLUDE = ["domain:a.test", "host:b.test", "prefix:http://c.test/open"]
EXCLUDE = [r"regex:/busca\?", "domain:secret.a.test", "prefix:http://b.test/private"]
PATHS = {
    "a.test": [*(f"/page/{n}" for n in range(12)), "/busca?q=1", "/busca?q=2", "/x?a=1", "/f/f/f/f/", "/robots-no/1",
               "/robots-no/2", "/picture.jpg", "/a%20b", "/UTM?utm_source=x"],
    "www.a.test": ["/", "/1", "/2", "/busca?d=2026"],
    "secret.a.test": ["/", "/1", "/2"],
    "b.test": ["/", "/1", "/private", "/private/2", "/public", "/n/n/n/n"],
    "sub.b.test": ["/", "/1"],
    "c.test": ["/open/1", "/open/2", "/closed", "/"],
    "d.test": ["/", "/1", "/2", "/busca?x", "/3"],
}  # fmt: skip


def every_link(request: WorldRequest) -> WorldAnswer:
    port = request.headers["host"].rpartition(":")[2]
    return html(*(f"http://{host}:{port}{path}" for host, paths in PATHS.items() for path in paths))


def pages() -> dict[str, dict[str, Page]]:
    made: dict[str, dict[str, Page]] = {}
    for number, (host, paths) in enumerate(PATHS.items()):
        made[host] = {path: html(text=text_of(100 * number + at)) for at, path in enumerate(paths)}
    made["a.test"]["/picture.jpg"] = WorldAnswer(200, b"Content-Type: image/jpeg\r\n", b"\xff\xd8\xff")
    made["a.test"]["/"] = every_link
    made["a.test"]["/robots.txt"] = robots("User-agent: *\nDisallow: /robots-no/")
    return made


def with_port(rules: list[str], port: int) -> list[str]:
    return [rule.replace(".test/", f".test:{port}/") for rule in rules]


def test_for_fifty_urls_the_tester_says_what_the_crawler_does(tmp_path: Path) -> None:
    """Verdict and rule, before a single request and after; and none is sent for it: the web is gone by then."""
    web = ScriptedWeb(pages())
    first = crawl_web(web, tmp_path, "a.test/", limits__pages=1, scope__include=["host:none.test"])
    port = first.port
    scope = {"include": with_port(INCLUDE, port), "exclude": with_port(EXCLUDE, port)}
    crawled = crawl_web(
        web, tmp_path / "real", "a.test/", port=port, sites__probe_after_pages=0, sites__aliases=False,
        **{f"scope__{name}": rules for name, rules in scope.items()}, scope__types=["text/html"],
    )  # fmt: skip
    root = open_root(crawled.data)
    config = saved(root, "main").config
    known = {each["url"]: each["outcome"] for each in known_urls(root, "main")}
    urls = [f"http://{host}:{port}{path}" for host, paths in PATHS.items() for path in paths]
    before = UrlTester(config).test_all(urls)
    with Lookup(root, "main") as lookup:
        after = UrlTester(config, lookup).test_all(urls)
    assert len(urls) >= 45
    asked = len(crawled.entries)
    for fresh, tried in zip(before, after, strict=True):
        assert tried.url is not None
        assert fresh.is_crawled == (tried.url in known), (fresh, known.get(tried.url))
        assert tried.is_crawled == (known.get(tried.url, "") not in {"", "robots"}), tried
        assert (tried.robots == "forbidden") == (known.get(tried.url) == "robots")
        assert (fresh.rule, fresh.rule_text) == (tried.rule, tried.rule_text)
        why = why_unknown(tried.url, config)
        if fresh.skipped_by is not None:
            assert why == f"it is out of scope: {tried.rule_text} excludes it"
            assert tried.rule == fresh.skipped_by > len(INCLUDE)
        elif tried.rule is None and tried.url not in known:
            assert "scope.include" in why or "image" in why or ".jpg" in tried.url, why
    assert {tried.rule for tried in after} >= {None, 1, 2, 3, 4, 5, 6}
    assert sum(step.name == "trap" for tried in before for step in tried.steps) == 2
    assert len(crawled.entries) == asked


CONFIG = Config(
    CollectionSettings(seeds=("http://a.test/",)),
    scope=ScopeSettings(exclude=("query:yes",), queries=True),
    courtesy=CourtesySettings(),
)


@pytest.mark.parametrize(
    ("typed", "url", "is_crawled", "why"),
    [
        ("a.test/x", "http://a.test/x", True, ""),
        ("HTTP://A.test/./x?utm_source=1", "http://a.test/x", True, ""),
        ("ftp://a.test/", None, False, "it is not an http or https URL"),
        ("", None, False, "it is not an http or https URL"),
        ("http://a.test/x?y=1", "http://a.test/x?y=1", False, "excluded by rule 2: query:yes"),
        ("http://b.test/", "http://b.test/", False, "no rule includes it"),
        ("http://a.test:22/", "http://a.test:22/", False, "port 22 is not allowed"),
        ("javascript:alert(1)", None, False, "it is not an http or https URL"),
    ],
)
def test_all_steps_of_the_decision_are_shown(typed: str, url: str | None, is_crawled: bool, why: str) -> None:
    tried = UrlTester(CONFIG).test(typed)
    assert (tried.url, tried.is_crawled, tried.why) == (url, is_crawled, why)
    assert (tried.steps[-1].name == "robots") == (url is not None)


def test_a_host_of_the_seeds_is_kept_without_a_rule_and_that_is_reported() -> None:
    kept = UrlTester(CONFIG).test("http://a.test/x")
    assert [step.detail for step in kept.steps if step.name == "rules"] == ["it is on the host of a seed: host:a.test"]
    assert kept.robots == "not asked"
