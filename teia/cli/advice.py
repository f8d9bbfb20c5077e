"""What to do about a crawl that got nowhere: why its seeds failed, and the next step for each reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from teia.config.sections import Config, CourtesySettings
from teia.errors import StoreError
from teia.fetch.resolver import Failure
from teia.records import Outcome
from teia.store.root import Root
from teia.urls import split

NOT_ASKED = frozenset({Outcome.BLOCKED_ADDRESS, Outcome.ROBOTS})
"""Seeds that we would not ask for: nothing that is tried again helps."""


def next_steps(root: Root, config: Config, account: Mapping[str, Any]) -> Iterator[str]:
    """One line for each reason for which seeds were not asked for: what stands in the way, and what can be done."""
    failed = dict(_seed_and_outcome(each) for each in account.get("failed_seeds", ()))
    if Outcome.BLOCKED_ADDRESS in failed.values():
        yield (
            "the guard keeps addresses of this machine and of networks that are not public from being asked;"
            " --allow-net CIDR lifts that for a network of yours: then whatever any page links to there is fetched,"
            " and shown to whoever may read the collection"
        )
    unresolved = [url for url, outcome in failed.items() if outcome == Outcome.DNS]
    if unresolved:
        why = next(each for each in account["failed_seeds"] if each.startswith(unresolved[0]))
        yield _about_name(split(unresolved[0]).host, why)
    forbidden = [url for url, outcome in failed.items() if outcome == Outcome.ROBOTS]
    if forbidden:
        line = _robots_line(root, config, forbidden[0])
        said = f" says `{line}`" if line else " could not be read, and until it can nothing is allowed"
        yield f"robots.txt of {forbidden[0]}{said}; ask its owner, or begin with pages that it allows"


def _about_name(host: str, why: str) -> str:
    """Say what to do about a name without an address, by what the name servers said of it."""
    elsewhere = f"--resolve {host}=ADDRESS says where it is reached"
    if any(failure in why for failure in Failure if failure.is_temporary):
        return (
            f"the address of {host} could not be asked for; look at the network of this machine, or name another"
            f" resolver with --dns ADDRESS; {elsewhere}"
        )
    return (
        f"the name {host} has no address; look at its spelling. If only some resolvers know it, name one with"
        f" --dns ADDRESS; {elsewhere}"
    )


def got_nowhere(account: Mapping[str, Any]) -> bool:
    """Whether a crawl has nothing to show, because none of its seeds could be or was allowed to be asked for."""
    failed = [_seed_and_outcome(each)[1] for each in account["failed_seeds"]]
    if not failed or account["pages"]:
        return False
    return not account["requests"] or NOT_ASKED.issuperset(failed)


def about_contact(courtesy: CourtesySettings) -> str:
    """Say so where the User-Agent names nobody; empty where it does."""
    if courtesy.contact != CourtesySettings().contact:
        return ""
    return (
        "no contact in the user agent: owners of servers cannot reach you; set courtesy.contact to a page or an"
        " address of yours (TEIA_COURTESY_CONTACT, or `teia set`)"
    )


def _seed_and_outcome(failed: str) -> tuple[str, str]:
    """`http://x.test/: robots (why)` taken apart."""
    url, _, why = failed.partition(": ")
    return url, why.partition(" ")[0]


def _robots_line(root: Root, config: Config, url: str) -> str:
    from teia.crawler.lookup import Lookup  # only where a crawl got nowhere
    from teia.views.page import robots_word

    try:
        with Lookup(root, config.collection.name) as lookup:
            entry = lookup.find(url)
            word = None if entry is None else robots_word(lookup, entry, config)
    except StoreError:
        return ""
    return "" if word is None else word.line
