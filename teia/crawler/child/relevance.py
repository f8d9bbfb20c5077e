"""A focused crawl in the parse child: the relevance of a page and the scores of its links (A6).

A relevant page vouches for its links (the radius-1 hypothesis of Chakrabarti et al., 1999). An irrelevant page passes
on half of its relevance or of its own score, whichever is greater, so a promise fades on the way. The words of a link,
in its text and in its URL, count as much as the page that contains it.

Soft focus changes only the order. Hard focus drops links to which more than `tunnel` consecutive irrelevant pages lead,
including the page that contains them. Page requisites are never dropped. URLs that only a sitemap names always are: a
sitemap has no topic, and names everything. The fate of an irrelevant page's links depends on the number of such pages
before it. So when a shorter path to the page is found, it is fetched again (frontier/cell/trails.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

from teia.crawler.child.messages import Focus, FocusJudgement, FoundLink
from teia.frontier.cell.schema import AS_SITEMAP, BY_REQUISITE, BY_SITEMAP
from teia.frontier.queue.order import NO_KIND, TOP_SCORE, Hint
from teia.lib.topic import MAX_TEXT_CHARS, SCALE, TopicModel
from teia.parse.text.normal import normalised
from teia.records import Page

MAX_ANCHORS = 4_096
"""Number of link texts whose score a child caches; menus are on every page of a site."""

FADING = 0.5
LINK_SHARE = 0.5
"""Share of a link's score that its own words give; the page that contains it gives the rest."""

ONLY_SITEMAPS = BY_SITEMAP | AS_SITEMAP

assert SCALE == TOP_SCORE, "relevance and scores are in the same unit"


@dataclass(frozen=True, slots=True)
class CompiledFocus:
    """A `Focus` made ready for use."""

    focus: Focus
    model: TopicModel
    score_of: Callable[[str], int | None]


def compile_focus(focus: Focus) -> CompiledFocus:
    model = TopicModel(focus.classes, focus.rest, focus.weights)
    return CompiledFocus(focus, model, lru_cache(maxsize=MAX_ANCHORS)(partial(_words_score, model=model)))


def judge(
    compiled: CompiledFocus, hint: Hint, page: Page, links: list[FoundLink], *, is_redirect: bool = False
) -> FocusJudgement:
    """Judge a page and its links, given the hint under which it was fetched. Hard focus removes links from `links`."""
    # With hard focus, a path with fewer irrelevant pages could save links of this page.
    is_far = compiled.focus.hard and hint.off_topic > 0
    if is_redirect:
        return FocusJudgement(0, NO_KIND, hint.off_topic, is_far, [hint.score] * len(links))
    judgement = compiled.model.judge(normalised(f"{page.title}\n{page.text[:MAX_TEXT_CHARS]}"))
    relevance, kind = judgement or (0, NO_KIND)
    is_relevant = relevance >= compiled.focus.threshold
    off_topic = 0 if is_relevant else hint.off_topic + 1
    promised = relevance if is_relevant else round(FADING * max(relevance, hint.score))
    if compiled.focus.hard:
        is_open = off_topic <= compiled.focus.tunnel
        links[:] = [link for link in links if link.by & BY_REQUISITE or (is_open and link.by & ~ONLY_SITEMAPS)]
    scores = [_link_score(compiled, link, promised, hint.score) for link in links]
    return FocusJudgement(relevance, kind, off_topic, is_far and not is_relevant, scores)


def _link_score(compiled: CompiledFocus, link: FoundLink, promised: int, of_page: int) -> int:
    # A requisite is needed whatever its words are.
    if link.by == BY_REQUISITE:
        return of_page
    own = compiled.score_of(f"{link.text} {link.tail}")
    return promised if own is None else round((1 - LINK_SHARE) * promised + LINK_SHARE * own)


def _words_score(text: str, model: TopicModel) -> int | None:
    judgement = model.judge(normalised(text))
    return None if judgement is None else judgement.score
