"""Evidence that two names are one site: from single pages, and from all pages together (A7).

A page *agrees* if both names show the same text at a path, or the same but for their own address. It *disagrees* if
they show different things at nearly the same time. Otherwise (alike, far apart in time, out of order) it says nothing.

Two names are one if enough different pages agree: `sites.alias_pages`, and as many more for each that disagrees (twice
as many for the home page). The same page at every path counts once, so hosts that have nothing but a default page stay
separate.
"""

from __future__ import annotations

from enum import Enum

import xxhash

from teia.frontier.cell.alias_evidence import AliasEvidence, AliasPair, ComparedVisit, HostActivity
from teia.frontier.queue.retry import RETRY_RULES
from teia.lib.fingerprints import distance
from teia.urls import split

SAME_TIME_S = 86_400.0
"""Pages seen further apart in time may differ because they changed."""

ALIKE_BITS = 8
MAX_DIFFERENT = 3
MAX_COMPARED = 64
"""Number of compared pages without a decision after which two names stay separate."""

MUCH_MORE = 16
"""A name with so many more pages, and twice as many, stays the main one: else they would be fetched again."""

PAGES = frozenset({"text/html", "application/xhtml+xml", "application/pdf"})
MAX_TAILS = 4
SAMPLED = 16
"""One of so many paths is sampled, the same on every host."""


class PageLikeness(Enum):
    """Evidence of one page on two names."""

    AGREES = "agrees"
    DISAGREES = "disagrees"
    NOTHING = "nothing"


def compare_pages(one: ComparedVisit, other: ComparedVisit) -> PageLikeness:
    """Compare the answers of two names at one path."""
    both_good = is_page(one) and is_page(other)
    if both_good and _is_same(one, other):
        return PageLikeness.AGREES
    if abs(one.time_s - other.time_s) > SAME_TIME_S or _is_unclear(one) or _is_unclear(other):
        return PageLikeness.NOTHING
    if both_good:
        is_alike = one.simhash and other.simhash and distance(one.simhash, other.simhash) <= ALIKE_BITS
        return PageLikeness.NOTHING if is_alike else PageLikeness.DISAGREES
    return PageLikeness.NOTHING if one.status == other.status else PageLikeness.DISAGREES


def is_page(seen: ComparedVisit) -> bool:
    """Tell whether an answer can be compared: sites made with the same program share scripts and styles."""
    return 200 <= seen.status < 300 and bool(seen.text) and seen.media_type in PAGES


def _is_unclear(seen: ComparedVisit) -> bool:
    """Tell whether an answer is a temporary error, or not a page."""
    is_other = 200 <= seen.status < 300 and not is_page(seen)
    return is_other or seen.status == 0 or str(seen.status) in RETRY_RULES


def _is_same(one: ComparedVisit, other: ComparedVisit) -> bool:
    """Tell whether texts are equal, or have equal simhashes (made without addresses) and titles."""
    if one.text == other.text:
        return True
    if not one.simhash or one.simhash != other.simhash:
        return False
    title = plain_title(one.title, one.url)
    return bool(title) and title == plain_title(other.title, other.url)


def leads_to_other(seen: ComparedVisit, other: str) -> bool:
    """Tell whether a page redirects to the same path of another host."""
    if not seen.redirect_to:
        return False
    there, here = split(seen.redirect_to), split(seen.url)
    return there.host == other and there.target == here.target


# ---- numbers --------------------------------------------------------------------------------------------------------


def hash64(text: str) -> int:
    """Return a signed hash of a text, as SQLite stores it."""
    number: int = xxhash.xxh3_64_intdigest(text.encode())
    return number - (1 << 64) if number >= 1 << 63 else number


def content_of(seen: ComparedVisit) -> int:
    """Return a number for a page's content, equal for pages that differ only in their address."""
    return seen.simhash or int.from_bytes(seen.text[:8], "big")


def is_sampled(url: str) -> bool:
    """Tell whether hosts are compared at a URL's path: the home page, and some paths chosen by their hash."""
    target = url[url.index("/", 8) :]
    return len(target) == 1 or hash64(target) % SAMPLED == 0


def samples_of(seen: ComparedVisit, site: str, address: str) -> list[tuple[str, int]]:
    """Return (scope, number) under which another host of the page's site, or at its address, can find it."""
    target = split(seen.url).target
    return [(scope, hash64(f"{scope} {target} {content_of(seen):x}")) for scope in (site, address) if scope]


# ---- evidence -------------------------------------------------------------------------------------------------------


def add_evidence(pair: AliasPair, tail: str, of_host: ComparedVisit, of_other: ComparedVisit) -> bool:
    """Add the evidence of one page; return whether it was new. A page counts once."""
    evidence, target = pair.evidence, hash64(tail)
    if target in evidence.equal or target in evidence.different or target in evidence.redirects:
        return False
    for redirecting, seen, to in ((pair.host, of_host, pair.other), (pair.other, of_other, pair.host)):
        if leads_to_other(seen, to):
            return _note_redirect(evidence, target, tail, redirecting, seen)
    likeness = compare_pages(of_host, of_other)
    if likeness is PageLikeness.AGREES:
        evidence.equal[target] = content_of(of_host)
        evidence.named += _calls_canonical(of_host, pair.host) - _calls_canonical(of_host, pair.other)
        _store_tail(evidence, tail)
    elif likeness is PageLikeness.DISAGREES:
        evidence.different += [target] * (1 + (tail == home_of(tail)))
    return likeness is not PageLikeness.NOTHING


def _note_redirect(evidence: AliasEvidence, target: int, tail: str, redirecting: str, seen: ComparedVisit) -> bool:
    """Add a redirect; all must go one way, and to one origin, others count against the pair."""
    origin = seen.redirect_to[: -len(split(seen.redirect_to).target)]
    if evidence.redirects and (evidence.redirecting, evidence.origin) != (redirecting, origin):
        evidence.different.append(target)
    else:
        evidence.redirects.append(target)
        evidence.redirecting, evidence.origin = redirecting, origin
        _store_tail(evidence, tail)
    return True


def _store_tail(evidence: AliasEvidence, tail: str) -> None:
    """Keep a few paths for later checks, the home page first."""
    if tail == home_of(tail):
        evidence.tails.insert(0, tail)
    elif len(evidence.tails) < MAX_TAILS:
        evidence.tails.append(tail)


def _calls_canonical(seen: ComparedVisit, host: str) -> bool:
    return bool(seen.canonical) and split(seen.canonical).host == host


def home_of(tail: str) -> str:
    """Return the tail of the home page with the same port and scheme."""
    return tail[: tail.index("/") + 1]


def is_hopeless(evidence: AliasEvidence) -> bool:
    compared = len(evidence.equal) + len(evidence.different) + len(evidence.redirects)
    return len(evidence.different) >= MAX_DIFFERENT or compared >= MAX_COMPARED


def is_redirect(evidence: AliasEvidence, needed: int) -> bool:
    """Tell whether one name only redirects to the other."""
    return len(evidence.redirects) >= needed * (1 + len(evidence.different) + len(evidence.equal))


def is_enough(evidence: AliasEvidence, needed: int) -> bool:
    """Tell whether enough different pages agree."""
    return len(set(evidence.equal.values())) >= needed * (1 + len(evidence.different))


# ---- choice of the main name ----------------------------------------------------------------------------------------


def choose_main(pair: AliasPair, host: HostActivity, other: HostActivity) -> tuple[str, str]:
    """Return the main name and the alias of two that show the same pages.

    The main name is the one with many more fetched pages; else the one the pages call canonical; else the one with more
    links to it; else the shorter.
    """
    more, less = max(host.requests, other.requests), min(host.requests, other.requests)
    if more >= 2 * less and more - less >= MUCH_MORE:
        is_main = host.requests > other.requests
    elif pair.evidence.named:
        is_main = pair.evidence.named > 0
    elif host.in_links != other.in_links:
        is_main = host.in_links > other.in_links
    else:
        is_main = (len(pair.host), pair.host) < (len(pair.other), pair.other)
    return (pair.host, pair.other) if is_main else (pair.other, pair.host)


# ---- titles ----------------------------------------------------------------------------------------------------------


def plain_title(title: str, url: str) -> str:
    """Return a title in comparable form: without case, accents, blanks and the page's own address."""
    # The code that normalises text is loaded with the first pair of pages that needs it; most crawls have none.
    from teia.parse.text.fingerprint import without_address
    from teia.parse.text.normal import normalised

    return " ".join(without_address(normalised(title), url).split())
