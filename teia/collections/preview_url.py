"""Explanation, step by step and without a request, whether a URL would be crawled (A8).

Every step is the crawler's own: the canonical form (urls.py), the rules (scope.py), the endless URL shapes
(frontier/traps/url_shapes.py), robots.txt as last fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from teia.collections.settings import implied_scope
from teia.config.sections import Config
from teia.crawler.compiled_settings import seeds_of
from teia.crawler.links import FrontierUrl, LinkRefusal, evaluate_link
from teia.crawler.lookup import Lookup, main_url
from teia.fetch.guard import FORBIDDEN_PORTS
from teia.fetch.robots import Access, rules_from_answer
from teia.frontier.rules.scope import Rulebook
from teia.lib.message import Message
from teia.urls import from_user, split

MAX_URLS = 200


@dataclass(frozen=True, slots=True)
class UrlTestStep:
    """One step and its verdict: `ok`, `no` where the URL is rejected, `unknown` where nothing was fetched yet."""

    name: str
    says: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class UrlTestResult:
    """Verdict on a URL. Rules are counted from 1, through the include list and on through the exclude list.

    `rule` is the one that decided, or null where none did: `kept_by` if it is kept, else `skipped_by`. `robots` is
    `allowed`, `forbidden`, `unreachable`, `not asked` or `not obeyed`.
    """

    typed: str
    url: str | None
    is_crawled: bool
    why: str
    steps: tuple[UrlTestStep, ...]
    rule: int | None = None
    rule_text: str = ""
    kept_by: int | None = None
    skipped_by: int | None = None
    robots: str = "not asked"
    state: str = ""


class UrlTester:
    """A configuration that URLs are tried against; `lookup` reads the existing collection, if there is one."""

    def __init__(self, config: Config, lookup: Lookup | None = None) -> None:
        scope = config.scope
        self._config, self._lookup = config, lookup
        self._seeds = frozenset(seeds_of(config))
        self._is_implied = not scope.include
        self.include = tuple(scope.include or implied_scope(config.collection.seeds))
        self.rules = (*self.include, *scope.exclude)
        self._rulebook = Rulebook(self.include, scope.exclude, types=scope.types, queries=scope.queries)

    def test_all(self, typed: Sequence[str], is_out_of_time: Callable[[], bool] = lambda: False) -> list[UrlTestResult]:
        """Try the URLs one after the other; after the time limit the others are reported as not tried."""
        return [self._not_tried(each) if is_out_of_time() else self.test(each) for each in typed[:MAX_URLS]]

    def _not_tried(self, typed: str) -> UrlTestResult:
        why = Message("not tested: the rules took too long for the URLs before it")
        return UrlTestResult(typed, from_user(typed), False, why, (UrlTestStep(Message("parsed"), "unknown", why),))

    def test(self, typed: str) -> UrlTestResult:
        """Explain the steps of one URL, as a user typed it."""
        url = from_user(typed)
        if url is None:
            why = Message("it is not an http or https URL")
            return UrlTestResult(typed, None, False, why, (UrlTestStep(Message("parsed"), "no", why),))
        steps = [UrlTestStep(Message("parsed"), "ok"), UrlTestStep("canonical", "ok", url)]
        ruling = self._rulebook.decide(url)
        kept_by, skipped_by = ruling.included_by, ruling.excluded_by
        skipped_number = None if skipped_by is None else skipped_by + len(self.include)
        scoped = self._scope_step(url, kept_by, skipped_number)
        steps += [self._port_step(url), *scoped]
        robots, robots_step = self._robots(url)
        steps.append(robots_step)
        state, known = self._known(url)
        steps += known
        # The first refusal is the reason.
        refused = next((step for step in steps if step.says == "no"), None)
        rule = skipped_number if skipped_number is not None else kept_by
        is_rule = any(step.name == "rules" for step in steps)
        return UrlTestResult(
            typed=typed,
            url=url,
            is_crawled=refused is None,
            why="" if refused is None else refused.detail,
            steps=tuple(steps),
            rule=None if rule is None or not is_rule else rule + 1,
            rule_text="" if rule is None or not is_rule else self.rules[rule],
            kept_by=None if kept_by is None else kept_by + 1,
            skipped_by=None if skipped_number is None else skipped_number + 1,
            robots=robots,
            state=state,
        )

    def _port_step(self, url: str) -> UrlTestStep:
        port = split(url).port
        why = Message("port {port} is not allowed", port=port) if port in FORBIDDEN_PORTS else ""
        return UrlTestStep(Message("port"), "no" if why else "ok", why)

    def _scope_step(self, url: str, kept_by: int | None, skipped: int | None) -> list[UrlTestStep]:
        """Judge a URL by the rules and by its shape; a seed needs no rule that keeps it."""
        if skipped is not None:
            return [
                UrlTestStep(
                    "rules", "no", Message("excluded by rule {n}: {rule}", n=skipped + 1, rule=self.rules[skipped])
                )
            ]
        if url in self._seeds:
            return [UrlTestStep("rules", "ok", Message("it is a seed"))]
        refusal = evaluate_link(url, self._rulebook.scope, self._config.limits)
        if refusal is LinkRefusal.UNINDEXABLE:
            return [UrlTestStep("type", "no", Message("its file extension is of a type that is not stored"))]
        if refusal is LinkRefusal.OUT_OF_SCOPE:
            if not self._rulebook.scope.queries and "?" in url:
                return [UrlTestStep("query", "no", Message("it has a query string, and those are not followed"))]
            return [UrlTestStep("rules", "no", Message("no rule includes it"))]
        included = [UrlTestStep("rules", "ok", self._included_reason(kept_by))]
        return (
            included
            if isinstance(refusal, FrontierUrl)
            else [*included, UrlTestStep("trap", "no", Message("it looks like a trap: {why}", why=refusal))]
        )

    def _included_reason(self, kept_by: int | None) -> str:
        if kept_by is None:
            return Message("everything is included")
        rule = self.rules[kept_by]
        if self._is_implied:
            return Message("it is on the host of a seed: {rule}", rule=rule)
        return Message("included by rule {n}: {rule}", n=kept_by + 1, rule=rule)

    def _robots(self, url: str) -> tuple[str, UrlTestStep]:
        """Judge a URL by robots.txt as last fetched; no request is made."""
        if not self._config.courtesy.robots:
            return "not obeyed", UrlTestStep("robots", "ok", Message("robots.txt is ignored"))
        body = self._stored_robots(url)
        if body is None:
            return "not asked", UrlTestStep("robots", "unknown", Message("robots.txt was not fetched yet"))
        fetched_s, outcome, status, text = body
        limit = self._config.limits.robots_bytes
        rules = rules_from_answer(outcome, status, text, self._config.courtesy.user_agent, None, fetched_s, limit)
        if rules.access is Access.UNREACHABLE:
            return "unreachable", UrlTestStep(
                "robots", "no", Message("robots.txt could not be fetched, so nothing is allowed")
            )
        if not rules.allows(url):
            return "forbidden", UrlTestStep("robots", "no", Message("robots.txt disallows it"))
        return "allowed", UrlTestStep("robots", "ok", Message("robots.txt allows it"))

    def _stored_robots(self, url: str) -> tuple[float, str, int, bytes] | None:
        if self._lookup is None:
            return None
        parts = split(url)
        cell = self._lookup.cells[self._lookup.cell_number(parts.host)]
        host_id = cell.find_host(parts.host)
        origin = f"{parts.scheme}://{parts.authority}"
        robots_rows = cell.robots_of(host_id, parts.host) if host_id is not None else []
        return next(
            ((at_s, outcome, status, body) for of, at_s, outcome, status, body in robots_rows if of == origin), None
        )

    def _known(self, url: str) -> tuple[str, list[UrlTestStep]]:
        """Return the state of the URL in the collection, with steps that explain it."""
        if self._lookup is None:
            return "", []
        main = main_url(self._lookup, url)
        if main is not None:
            return "alias", [
                UrlTestStep("alias", "no", Message("its host is an alias of {host}", host=split(main).host))
            ]
        entry = self._lookup.find(url)
        if entry is None:
            return "", []
        depth = self._config.scope.max_depth
        if entry.depth > depth and url not in self._seeds:
            return entry.state, [
                UrlTestStep(
                    "depth", "no", Message("its depth is {n}, and the maximum is {most}", n=entry.depth, most=depth)
                )
            ]
        return entry.state, []
