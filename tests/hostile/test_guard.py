"""No combination of entry point, spelling, hop and rebinding leads to a forbidden address.

Everything but the sockets is the product: URLs are written as a page, a person or a server would write them, read by
the code of their entry point, resolved by a table that may answer otherwise the next time, and judged by the guard. A
connection is forbidden if the address that would be connected to lies in a special network.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest

from teia.clock import WallClock
from teia.config.sections import Config, FetchSettings
from teia.crawler.signals_in.outgoing import Poster
from teia.fetch.destination import Destinations, Failure, Resolution, resolve_here
from teia.fetch.fetcher import PostBody
from teia.fetch.guard import AddressGuard
from teia.fetch.robots import parse_robots
from teia.parse.document import ParseOptions
from teia.parse.parse import parse_document
from teia.records import Outcome
from teia.urls import canonicalize, from_user, resolve, split

FORBIDDEN = (
    "127.0.0.1", "127.66.0.1", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.254", "192.168.1.1",
    "169.254.169.254", "100.64.0.1", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1",
    "239.255.255.250", "240.0.0.1", "255.255.255.255", "::", "::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1",
    "ff02::1", "2001:db8::1", "64:ff9b:1::1", "100::1",
)  # fmt: skip
PUBLIC = "93.184.216.34"


def spellings(address: str) -> Iterator[str]:
    """Yield an address as a page may write it."""
    parsed = ip_address(address)
    if isinstance(parsed, IPv6Address):
        yield from (f"[{parsed}]", f"[{parsed.exploded}]", f"[{parsed.exploded.upper()}]", f"user@[{parsed}]")
        return
    first, second, third, fourth = parsed.packed
    number = int(parsed)
    yield from (
        address, f"{address}.", str(number), hex(number), f"0{number:o}", f"{first}.{number & 0xFFFFFF}",
        f"{first}.{second}.{number & 0xFFFF}", f"0x{first:x}.{second}.{third}.{fourth}",
        f"0{first:o}.{second}.{third}.{fourth}",
        f"[::ffff:{address}]", f"[::ffff:{number >> 16:x}:{number & 0xFFFF:x}]", f"[64:ff9b::{address}]",
        f"[2002:{number >> 16:x}:{number & 0xFFFF:x}::]", f"public.test@{address}", f"a:b@{address}",
        address.replace(".", "\u3002"), f"%{ord(address[0]):x}{address[1:]}", f"{address}:80@{address}",
    )  # fmt: skip


def as_html(markup: str) -> Callable[[str], Iterable[str]]:
    def read(url: str) -> Iterable[str]:
        document = f"<html><head></head><body>{markup.format(url=url)}".encode()
        parsed = parse_document("http://public.test/page", HEAD, document, OPTIONS)
        return [link.url for link in parsed.page.links]

    return read


def as_file(template: str, kind: str, *, is_sitemap: bool = False) -> Callable[[str], Iterable[str]]:
    def read(url: str) -> Iterable[str]:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\n".encode()
        parsed = parse_document(
            "http://public.test/file", head, template.format(url=url).encode(), OPTIONS, is_sitemap=is_sitemap
        )
        return [link.url for link in parsed.page.links]

    return read


def as_header(line: str) -> Callable[[str], Iterable[str]]:
    def read(url: str) -> Iterable[str]:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{line.format(url=url)}\r\n\r\n".encode()
        return [link.url for link in parse_document("http://public.test/page", head, b"<p>", OPTIONS).page.links]

    return read


def as_robots_sitemap(url: str) -> Iterable[str]:
    rules = parse_robots(f"User-agent: *\nSitemap: {url}\n".encode(), "teia")
    return [found for each in rules.sitemaps if (found := resolve(each, "http://public.test/robots.txt"))]


def found_by(read: Callable[..., str | None], *more: str) -> Callable[[str], Iterable[str]]:
    return lambda url: [found for found in [read(url, *more)] if found]


OPTIONS = ParseOptions(want_requisites=True)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
ENTRY_POINTS: dict[str, Callable[[str], Iterable[str]]] = {
    "seed": found_by(from_user),
    "seed without a scheme": lambda url: found_by(from_user)(url.partition("://")[2]),
    "imported": found_by(canonicalize),
    "redirect": found_by(resolve, "http://public.test/page"),
    "redirect without a scheme": lambda url: found_by(resolve, "http://public.test/p")(url.partition(":")[2]),
    "link": as_html('<a href="{url}">x</a>'),
    "frame": as_html('<iframe src="{url}"></iframe>'),
    "image": as_html('<img src="{url}" srcset="{url} 2x">'),
    "base": as_html('<base href="{url}"><a href="x">x</a>'),
    "canonical": as_html('<link rel="canonical" href="{url}">'),
    "favicon": as_html('<link rel="icon" href="{url}">'),
    "meta refresh": as_html('<meta http-equiv="refresh" content="0; url={url}">'),
    "Refresh header": as_header("Refresh: 0; url={url}"),
    "Link header": as_header('Link: <{url}>; rel="canonical"'),
    "feed": as_file("<rss><channel><item><link>{url}</link></item></channel></rss>", "application/rss+xml"),
    "sitemap": as_file("<urlset><url><loc>{url}</loc></url></urlset>", "text/xml", is_sitemap=True),
    "sitemap index": as_file(
        "<sitemapindex><sitemap><loc>{url}</loc></sitemap></sitemapindex>", "text/xml", is_sitemap=True
    ),
    "text sitemap": as_file("{url}", "text/plain", is_sitemap=True),
    "robots.txt": as_robots_sitemap,
}  # fmt: skip


class Rebinding:
    """A name server whose names lead outside at first and inside later, or to both at once."""

    def __init__(self, answers: list[tuple[str, ...]]) -> None:
        self._answers = itertools.chain(answers, itertools.repeat(answers[-1]))

    def find_cached(self, name: str) -> Resolution | None:
        here = resolve_here(name)
        if here is not None:
            return here
        addresses = next(self._answers)
        return Resolution(addresses, math.inf, None if addresses else Failure.NO_ADDRESS)

    async def resolve(self, name: str) -> Resolution:
        found = self.find_cached(name)
        assert found is not None
        return found

    async def close(self) -> None:
        return


def rebindings(inside: str) -> dict[str, list[tuple[str, ...]]]:
    return {
        "inside": [(inside,)],
        "both": [(PUBLIC, inside)],
        "later": [(PUBLIC,), (inside,)],
        "never": [()],
    }


def is_inside(address: str) -> bool:
    parsed: IPv4Address | IPv6Address = ip_address(address)
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    return not parsed.is_global or parsed.is_multicast


def connections(url: str, answers: list[tuple[str, ...]], hops: int) -> list[str]:
    """Return the addresses to which requests for a URL and its redirects to itself would be sent."""
    destinations, reached = Destinations(Rebinding(answers), AddressGuard()), []
    for _ in range(hops + 1):
        parts = split(url)
        found = destinations.find_cached(parts.host, parts.port)
        assert found is not None
        if found.outcome is None:
            reached.append(found.address)
        else:
            assert found.outcome in {Outcome.BLOCKED_ADDRESS, Outcome.DNS}
    return reached


def combinations() -> Iterator[tuple[str, str, str, list[tuple[str, ...]], int]]:
    """Yield (entry point, URL as written, kind of name server, its answers, number of hops)."""
    for entry, address in itertools.product(ENTRY_POINTS, FORBIDDEN):
        names = [
            *spellings(address),
            "inside.test",
            "INSIDE.TEST.",
            "metadata.google.internal",
            "x.localhost",
            "localhost.",
        ]
        for name, (kind, answers), hops in itertools.product(names, rebindings(address).items(), (0, 1, 5)):
            yield entry, f"http://{name}/latest/meta-data", kind, answers, hops


def check(chosen: Iterable[tuple[str, str, str, list[tuple[str, ...]], int]]) -> tuple[int, int]:
    """Check combinations; return how many, and how many URLs were read from them."""
    known: dict[tuple[str, str], list[str]] = {}
    number = urls = 0
    for entry, written, kind, answers, hops in chosen:
        found = known.get((entry, written))
        if found is None:
            found = known[entry, written] = [*ENTRY_POINTS[entry](written)]
        number += 1
        for url in found:
            urls += 1
            reached = connections(url, answers, hops)
            assert not any(map(is_inside, reached)), (entry, written, kind, hops, url, reached)
    return number, urls


def test_no_combination_leads_inside() -> None:
    every = list(combinations())
    assert len(every) >= 20_000
    number, urls = check(random.Random(24).sample(every, 1_500))
    assert number == 1_500
    assert urls > 1_000, "the entry points read hardly any of what was written"


@pytest.mark.slow
def test_no_combination_of_all_leads_inside(record_property: Callable[[str, object], None]) -> None:
    number, urls = check(combinations())
    record_property("figure 3", f"{urls} combinations that are read as a URL: 0 forbidden connections")
    assert number >= 20_000
    assert urls >= 20_000


@pytest.mark.parametrize("entry", ENTRY_POINTS)
def test_every_entry_point_reads_what_is_allowed(entry: str) -> None:
    """Or the test above could not fail."""
    (url, *_) = ENTRY_POINTS[entry]("http://other.test/latest/meta-data")
    assert connections(url, [(PUBLIC,)], 0) == [PUBLIC]


@pytest.mark.parametrize("url", ["http://127.66.0.1:8800/hook", "http://[::1]:8800/", "http://169.254.169.254/latest"])
def test_a_webhook_or_hub_inside_is_not_posted_to(url: str) -> None:
    async def post() -> str:
        poster = Poster(Config(fetch=FetchSettings(dns="127.77.255.254:1")), WallClock())
        try:
            return (await poster.post(url, PostBody(b"{}", "application/json"))).outcome
        finally:
            await poster.close()

    assert asyncio.run(post()) == "blocked_address"
