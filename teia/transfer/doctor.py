"""Checks of the machine and of a collection before trouble comes (`teia doctor`): what was found, and what to do.

Checks of the machine read; they send nothing. Checks of a collection resolve the hosts of its seeds and request the
robots.txt of a few of them, with the care of a crawl: under the lock of the folder, by its settings, not before the
ledger allows it, and with the delay noted in the ledger for the next crawl.
"""

from __future__ import annotations

import asyncio
import ctypes
import importlib
import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from teia.clock import Clock
from teia.config.sections import Config
from teia.crawler.compiled_settings import user_agent
from teia.crawler.resources import DiskSpace, count_open_files, raise_limit
from teia.crawler.running_collection import delay_entry
from teia.crawler.verdicts import retry_after_s
from teia.errors import StoreError
from teia.fetch.curl import CurlFetcher
from teia.fetch.destination import AddressOverrides, Destination, Destinations
from teia.fetch.dns import CaresResolver
from teia.fetch.fetcher import FetchRequest
from teia.fetch.guard import AddressGuard
from teia.fetch.robots import Access, rules_from_answer
from teia.frontier.queue.ledger import Ledger
from teia.frontier.queue.politeness import Politeness
from teia.parse.headers import parse_head
from teia.records import Fetched
from teia.render.browser import find_isolation
from teia.render.program import find_browser
from teia.store.root import Root
from teia.urls import from_user, split
from teia.version import describe_build

OK, WARNING, FAILURE, UNKNOWN = "ok", "warning", "failure", "unknown"

COMPILED = (
    "teia.parse.scan._scan",
    "teia.lib._words",
    "teia.lib._sorted",
    "teia.index._stems",
    "teia.search.rank._rows",
)
EXTRAS = {"cluster": "nats", "lab": "matplotlib"}
FEW_FILES = 4_096
SLOW_SYNC_S = 0.25
LITTLE_MEMORY = 512 << 20
CLOCK_ERROR = 5
"""What adjtimex(2) returns while no time service keeps the clock right."""

CLOCK_OFF_S = 30.0
MOST_HOSTS = 5
"""Hosts whose robots.txt is requested at most."""

EXAMPLES = ("example.org", "example.com", "example.net")


class Checked(NamedTuple):
    """One check: its subject, how it stands, what was found, and what to do if that is not right."""

    check: str
    state: str
    found: str
    action: str = ""


# ---- the machine ----------------------------------------------------------------------------------------------------


def check_machine(folder: Path, low_bytes: int = Config().limits.disk_free_bytes) -> Iterator[Checked]:
    """Check the environment, limits, clock, memory and disk; `folder` is the data folder, or where it would be."""
    yield Checked("build", OK, describe_build())
    yield _compiled_parts()
    yield _extras()
    yield _open_files()
    yield _system_clock()
    yield _memory()
    yield _browser()
    while not folder.exists():
        folder = folder.parent
    yield _disk_space(folder, low_bytes)
    yield _disk_sync(folder)


def _compiled_parts() -> Checked:
    try:
        for name in COMPILED:
            importlib.import_module(name)
    except ImportError as error:
        return Checked("compiled parts", FAILURE, str(error), "install a wheel of this Python version again")
    return Checked("compiled parts", OK, "all can be imported")


def _extras() -> Checked:
    found = [extra for extra, module in EXTRAS.items() if find_spec(module) is not None]
    return Checked("extras", OK, ", ".join(found) or "none; one machine needs none")


def _open_files() -> Checked:
    limit, used = raise_limit(), count_open_files()
    text = f"{limit:,} open files are allowed, {used:,} are open"
    if limit < FEW_FILES:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        return Checked(
            "open files", WARNING, text,
            f"fewer requests run at the same time; raise the hard limit of {hard:,} (LimitNOFILE= of the systemd unit)",
        )  # fmt: skip
    return Checked("open files", OK, text)


def _system_clock() -> Checked:
    """Ask the kernel whether a time service keeps the clock right; the call changes nothing."""
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(512))
    except (OSError, AttributeError):
        state = -1
    if state < 0:
        return Checked(
            "clock", UNKNOWN, "the kernel does not tell whether the clock is right", "compare it by hand: date -u"
        )
    if state == CLOCK_ERROR:
        return Checked(
            "clock", WARNING, "no time service keeps the clock right", "timedatectl set-ntp true, or install chrony"
        )
    return Checked("clock", OK, "kept right by a time service")


def _memory() -> Checked:
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return Checked("memory", UNKNOWN, "/proc/meminfo cannot be read", "a hardened unit hides it; nothing to do")
    text = f"{free >> 20:,} MiB are available"
    if free < LITTLE_MEMORY:
        return Checked("memory", WARNING, text, "a crawl with its index needs some 500 MiB; end other programs")
    return Checked("memory", OK, text)


def _browser() -> Checked:
    """Look for Chromium, and for the isolation that this machine allows it."""
    program = find_browser()
    if program is None:
        return Checked("browser", OK, "no Chromium; pages are read as received, and none is rendered")
    isolation = find_isolation()
    network = "a network namespace" if isolation.has_namespace else "no network namespace"
    text = f"{program}, with {network} and {'a' if isolation.has_sandbox else 'no'} sandbox"
    if isolation.has_sandbox and isolation.has_namespace:
        return Checked("browser", OK, text)
    return Checked("browser", WARNING, text, "allow user namespaces, or set render.mode to never")


def _disk_space(folder: Path, low_bytes: int) -> Checked:
    disk = os.statvfs(folder)
    text = f"{disk.f_bavail * disk.f_frsize >> 20:,} MiB are free at {folder}"
    complaint = DiskSpace(folder, low_bytes).complaint()
    if complaint:
        return Checked(
            "disk space", FAILURE, text, "a crawl waits until there is more; delete files or use another disk"
        )
    if disk.f_files and disk.f_favail < 10_000:
        return Checked(
            "disk space", WARNING, f"{disk.f_favail:,} more files fit at {folder}", "delete small files there"
        )
    return Checked("disk space", OK, text)


def _disk_sync(folder: Path) -> Checked:
    """Write and sync a small file: every group commit does so."""
    path = folder / f".doctor.{os.getpid()}.tmp"
    try:
        began = time.perf_counter()
        with path.open("wb") as file:
            file.write(b"\0" * 4_096)
            file.flush()
            os.fsync(file.fileno())
        took_s = time.perf_counter() - began
    except OSError as error:
        return Checked(
            "disk writes", FAILURE, f"{folder}: {error.strerror}", "give the user of teia the right to write there"
        )
    finally:
        path.unlink(missing_ok=True)
    text = f"a sync takes {1000 * took_s:.0f} ms at {folder}"
    if took_s > SLOW_SYNC_S:
        return Checked("disk writes", WARNING, text, "commits wait for syncs; use a local disk, not a network folder")
    return Checked("disk writes", OK, text)


# ---- a collection ---------------------------------------------------------------------------------------------------


def check_contact(config: Config) -> Checked:
    contact = config.courtesy.contact.strip()
    action = "set courtesy.contact to a page or an address where server owners reach you"
    if not contact:
        return Checked("contact", FAILURE, "courtesy.contact is empty", action)
    if any(name in contact for name in EXAMPLES):
        return Checked("contact", WARNING, f"{contact} is an example", action)
    return Checked("contact", OK, contact)


async def check_seeds(root: Root, config: Config, clock: Clock) -> list[Checked]:
    """Resolve the hosts of the seeds, and request the robots.txt of a few of them as a crawl would."""
    seeds = [url for url in map(from_user, config.collection.seeds) if url is not None]
    origins = dict.fromkeys(url[: url.index("/", 8)] for url in seeds)
    if not origins:
        return [Checked("seeds", WARNING, "the collection has no seeds", "teia add URL --data DIR")]
    guard, resolver = AddressGuard(config.fetch.allow_nets), CaresResolver(clock, config.fetch.dns or None)
    destinations = Destinations(resolver, guard, AddressOverrides.parse(config.fetch.resolve))
    fetcher = CurlFetcher(
        guard, config.limits, clock, user_agent(config.courtesy), keep_alive=0, bind=config.fetch.bind
    )
    found: list[Checked] = []
    try:
        with _polite_ledger(root, clock) as ledger:
            for origin in list(origins)[:MOST_HOSTS]:
                parts = split(origin + "/")
                destination = await destinations.find(parts.host, parts.port)
                found.append(_dns(parts.host, destination))
                if destination.outcome is None:
                    found += await _robots(origin, destination, config, fetcher, ledger, clock)
    finally:
        await fetcher.close()
        await resolver.close()
    return found


@contextmanager
def _polite_ledger(root: Root, clock: Clock) -> Iterator[Ledger | None]:
    """Yield the ledger under the folder's lock; None while a crawler holds it or after it did not end cleanly.

    A node needs the lease of an address before it sends a request, so in its folder there is none either.
    """
    if (root.path / "cluster.json").exists():
        yield None
        return
    try:
        with root.locked():
            ledger = Ledger(root.path / "ledger.sqlite")
            is_clean = ledger.open()
            try:
                yield ledger if is_clean else None
            finally:
                # After a crash the mark stays, so that the next crawl waits every delay in full.
                ledger.close(clean=is_clean, now_s=clock.now_s())
            return
    except StoreError:
        if root.lock_holder() is None:
            raise
    yield None


def _dns(host: str, destination: Destination) -> Checked:
    if destination.outcome is None:
        return Checked("DNS", OK, f"{host} is {destination.address}")
    action = "check the spelling, /etc/resolv.conf and fetch.dns"
    if destination.outcome.value == "blocked_address":
        action = "the address guard refuses private addresses; fetch.allow_nets allows some"
    return Checked("DNS", FAILURE, f"{host}: {destination.outcome.value} {destination.detail}".strip(), action)


async def _robots(
    origin: str, destination: Destination, config: Config, fetcher: CurlFetcher, ledger: Ledger | None, clock: Clock
) -> list[Checked]:
    host, now_s = split(origin + "/").host, clock.now_s()
    if ledger is None:
        return [
            Checked(
                "robots.txt",
                UNKNOWN,
                f"{host}: not requested, because a crawler or a node runs here, or crashed",
                "teia status",
            )
        ]
    places = {("server", host), ("address", destination.address)}
    if places & {(entry.kind, entry.name) for entry in ledger.delays(now_s)}:
        return [
            Checked("robots.txt", UNKNOWN, f"{host}: not requested, because its delay is not over", "try again later")
        ]
    answer: asyncio.Future[Fetched] = asyncio.get_running_loop().create_future()
    politeness, started = Politeness(config.courtesy), clock.ticks_s()
    server, address = politeness.server(host), politeness.address(destination.address)
    politeness.begin_request(server, address)
    fetcher.start(FetchRequest(f"{origin}/robots.txt", destination.address, destination.port), answer.set_result)
    fetched = await answer
    ended = clock.ticks_s()
    wait_s = retry_after_s(fetched, clock.now_s())
    if fetched.status in {429, 503} and not wait_s:
        wait_s = politeness.back_off(server, ended, 0.0)
    politeness.end_request(server, address, started, ended, wait_s)
    targets = (("server", server), ("address", address))
    ledger.write(delay_entry(kind, target, ended, clock.now_s()) for kind, target in targets)
    return [_access(host, fetched, config.courtesy.user_agent), *_remote_clock(host, fetched)]


def _access(host: str, fetched: Fetched, agent: str) -> Checked:
    rules = rules_from_answer(fetched.outcome, fetched.status, fetched.body, agent)
    text = f"{host}: {fetched.status or fetched.outcome} {fetched.detail}".strip()
    if rules.access is Access.UNREACHABLE:
        return Checked(
            "robots.txt", FAILURE, text, "nothing is fetched from a host whose robots.txt cannot be; try a browser"
        )
    return Checked("robots.txt", OK, text)


def _remote_clock(host: str, fetched: Fetched) -> list[Checked]:
    """Compare the clock with that of a server; caches and wrong servers make this a hint only."""
    dates = parse_head(fetched.head).headers.all("date")
    try:
        off_s = abs(parsedate_to_datetime(dates[0]).timestamp() - fetched.ended_s)
    except (ValueError, IndexError):
        return []
    if off_s < CLOCK_OFF_S:
        return []
    return [
        Checked("clock", WARNING, f"{off_s:,.0f} s apart from that of {host}", "compare with other clocks: date -u")
    ]
