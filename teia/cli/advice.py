"""Advice after a crawl that fetched nothing: why its seeds failed, and the next step for each reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from teia.config.sections import Config, CourtesySettings
from teia.errors import StoreError
from teia.fetch.destination import Failure
from teia.fetch.guard import OF_OTHERS, OF_TEIA
from teia.records import Outcome
from teia.store.root import Root
from teia.urls import split

NOT_REQUESTED = frozenset({Outcome.BLOCKED_ADDRESS, Outcome.ROBOTS})
"""Outcomes of seeds that were never requested; a retry does not help."""


def next_steps(root: Root, config: Config, account: Mapping[str, Any]) -> Iterator[str]:
    """Yield one line for each reason why seeds were not fetched: the obstacle, and the remedy."""
    # The summary has sentences; each begins with the URL and the outcome.
    sentences: Sequence[str] = account.get("failed_seeds", ())
    failed = dict(map(_seed_and_outcome, sentences))
    blocked = [each for each in sentences if _seed_and_outcome(each)[1] == Outcome.BLOCKED_ADDRESS]
    closed = [each for each in blocked if OF_OTHERS in each or OF_TEIA in each]
    if closed:
        parts = split(_seed_and_outcome(closed[0])[0])
        yield f"no setting opens port {parts.port} of {parts.host}; check the port, or serve the site at another one"
    if len(closed) < len(blocked):
        yield (
            "the address guard blocks addresses of this machine and of private networks; allow a network of yours"
            " with --allow-net CIDR: every link into it is then followed, and everybody with access to"
            " the collection can read the result"
        )
    unresolved = [url for url, outcome in failed.items() if outcome == Outcome.DNS]
    if unresolved:
        why = next(each for each in account["failed_seeds"] if each.startswith(unresolved[0]))
        yield _dns_advice(split(unresolved[0]).host, why)
    unreachable = [url for url, outcome in failed.items() if outcome == Outcome.CONNECT]
    if unreachable:
        parts = split(unreachable[0])
        yield f"check that a server is running at {parts.host} port {parts.port}, and that this machine can reach it"
    forbidden = [url for url, outcome in failed.items() if outcome == Outcome.ROBOTS]
    if forbidden:
        line = _robots_line(root, config, forbidden[0])
        robots_text = f" has the line `{line}`" if line else " could not be fetched; until then nothing may be crawled"
        yield (
            f"robots.txt of {forbidden[0]}{robots_text}; ask the owner of the site for permission, or start from pages"
            " that are allowed"
        )


def what_now(root: Root, account: Mapping[str, Any]) -> str:
    """Return what to do after a crawl that got somewhere: continue, search, or look at it."""
    steps = ["run the same command to continue"] if account["urls_queued"] else []
    steps += [f"teia search WORDS --data {root.path}"] if account["indexed"] else []
    return " · ".join([*steps, f"teia serve --data {root.path}"])


def _dns_advice(host: str, why: str) -> str:
    """Return advice about a host name without an address, by the answer of the name servers."""
    elsewhere = f"or set its address with --resolve {host}=ADDRESS"
    # A temporary failure, such as a time-out, does not prove that the name does not exist.
    if any(failure in why for failure in Failure if failure.is_temporary):
        return (
            f"the name servers could not be reached for {host}; check the network connection of this machine,"
            f" choose another DNS resolver with --dns ADDRESS, {elsewhere}"
        )
    return (
        f"the host name {host} does not exist; check its spelling. If only some DNS resolvers know it, choose one"
        f" with --dns ADDRESS, {elsewhere}"
    )


def fetched_nothing(account: Mapping[str, Any]) -> bool:
    """Tell whether a crawl has no pages because none of its seeds could be, or was allowed to be, fetched."""
    failed = [_seed_and_outcome(each)[1] for each in account["failed_seeds"]]
    if not failed or account["pages"]:
        return False
    # Requests without pages are no failure of the seeds, unless each of them was forbidden.
    return not account["requests"] or NOT_REQUESTED.issuperset(failed)


def contact_hint(courtesy: CourtesySettings) -> str:
    """Return a hint if the User-Agent names no contact; empty if it does."""
    # The default is a placeholder in the domain `.invalid`.
    if courtesy.contact != CourtesySettings().contact:
        return ""
    return (
        "the user agent has no contact address, so server owners cannot reach you; set courtesy.contact to a web"
        " page or an e-mail address of yours (TEIA_COURTESY_CONTACT, or `teia set`)"
    )


def _seed_and_outcome(failed: str) -> tuple[str, str]:
    """Split `http://x.test/: robots (why)` into the URL and the outcome."""
    url, _, why = failed.partition(": ")
    return url, why.partition(" ")[0]


def _robots_line(root: Root, config: Config, url: str) -> str:
    from teia.crawler.lookup import Lookup  # only where a crawl got nowhere
    from teia.views.page import robots_ruling

    try:
        with Lookup(root, config.collection.name) as lookup:
            entry = lookup.find(url)
            word = None if entry is None else robots_ruling(lookup, entry, config)
    except StoreError:
        return ""
    return "" if word is None else word.line
