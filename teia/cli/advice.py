"""What to do about a crawl that got nowhere: why its seeds failed, and the next step for each reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from teia.config import Config, CourtesySettings
from teia.errors import StoreError
from teia.fetch.dns import Failure
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
            "the address guard blocks addresses of this machine and of private networks; allow a network of yours"
            " with --allow-net CIDR: every link into it is then followed, and everybody with access to"
            " the collection can read the result"
        )
    unresolved = [url for url, outcome in failed.items() if outcome == Outcome.DNS]
    if unresolved:
        why = next(each for each in account["failed_seeds"] if each.startswith(unresolved[0]))
        yield _about_name(split(unresolved[0]).host, why)
    forbidden = [url for url, outcome in failed.items() if outcome == Outcome.ROBOTS]
    if forbidden:
        line = _robots_line(root, config, forbidden[0])
        said = f" has the line `{line}`" if line else " could not be fetched; until then nothing may be crawled"
        yield (
            f"robots.txt of {forbidden[0]}{said}; ask the owner of the site for permission, or start from pages"
            " that are allowed"
        )


def _about_name(host: str, why: str) -> str:
    """Say what to do about a name without an address, by what the name servers said of it."""
    elsewhere = f"or set its address with --resolve {host}=ADDRESS"
    if any(failure in why for failure in Failure if failure.is_temporary):
        return (
            f"the name servers could not be reached for {host}; check the network connection of this machine,"
            f" choose another DNS resolver with --dns ADDRESS, {elsewhere}"
        )
    return (
        f"the host name {host} does not exist; check its spelling. If only some DNS resolvers know it, choose one"
        f" with --dns ADDRESS, {elsewhere}"
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
        "the user agent has no contact address, so server owners cannot reach you; set courtesy.contact to a web"
        " page or an e-mail address of yours (TEIA_COURTESY_CONTACT, or `teia set`)"
    )


def _seed_and_outcome(failed: str) -> tuple[str, str]:
    """`http://x.test/: robots (why)` taken apart."""
    url, _, why = failed.partition(": ")
    return url, why.partition(" ")[0]


def _robots_line(root: Root, config: Config, url: str) -> str:
    from teia.views.lookup import Lookup  # only where a crawl got nowhere
    from teia.views.page_detail import robots_word

    try:
        with Lookup(root, config.collection.name) as lookup:
            entry = lookup.find(url)
            word = None if entry is None else robots_word(lookup, entry, config)
    except StoreError:
        return ""
    return "" if word is None else word.line
