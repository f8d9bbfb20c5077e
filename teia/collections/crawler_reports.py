"""The crawler's side of `control.sqlite`: it reads commands and writes reports, beside the crawl's loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict

from teia.clock import Clock
from teia.collections.account import summarize
from teia.collections.bulk import pending_actions
from teia.collections.edits import LIVE, SHARED, apply_edits, from_json
from teia.collections.inbox import ACCOUNT_S, POLL_S, RETENTION_S, ControlFile
from teia.collections.series import SeriesWriter
from teia.crawler.compiled_settings import compile_settings
from teia.crawler.loop import Crawler
from teia.crawler.running_collection import Crawl
from teia.errors import DiskFull, TeiaError
from teia.store.root import Root


def last_change(root: Root) -> int:
    """Return the number of the newest settings change, for `serve_control`. Call it before settings are read."""
    path = root.path / "control.sqlite"
    if not path.exists():
        return 0
    control = ControlFile(path)
    try:
        return control.last_change()
    finally:
        control.close()


async def serve_control(crawler: Crawler, root: Root, clock: Clock, since: int) -> None:
    """Execute commands and write accounts until cancelled; then the runs end.

    Changes after `since` may not be in the settings that the crawl began with, so they are applied.
    """
    control = ControlFile(root.path / "control.sqlite")
    started, series = clock.ticks_s(), SeriesWriter(control)
    try:
        for crawl in crawler.crawls:
            await announce(control, crawl.name, clock)
        accounts_at = started
        while True:
            for crawl in crawler.crawls:
                crawler.apply_commands(control.take_commands(crawl.name, clock.now_s()), crawl)
                accept_requests(control, crawler, crawl, clock)
                for number, edits in control.changes(crawl.name, since):
                    answer = await reconfigure_crawl(crawler, crawl, root, edits)
                    with suppress(DiskFull):
                        control.answer_change(number, answer)
            if clock.ticks_s() >= accounts_at:
                accounts_at = clock.ticks_s() + ACCOUNT_S
                for crawl in crawler.crawls:
                    write_account(control, series, crawl, clock, clock.ticks_s() - started)
            await clock.sleep(POLL_S)
    finally:
        for crawl in crawler.crawls:
            with suppress(DiskFull):
                control.end(crawl.name)
        control.close()


def accept_requests(control: ControlFile, crawler: Crawler, crawl: Crawl, clock: Clock) -> None:
    """Pass the visit requests and bulk actions of users to a crawl, and record its progress for them."""
    requests = crawl.committer.visit_requests
    applied = requests.accept(control.visit_requests(crawl.name))
    for number in applied:
        # A request that cannot be recorded is applied again, which does no harm.
        with suppress(DiskFull):
            control.remove_visit_request(number)
    requests.forget(applied)
    for number, urls in requests.bulk.accept(pending_actions(control, crawl.name)):
        with suppress(DiskFull):
            control.complete_action(number, urls, clock.now_s())
        requests.bulk.forget(number)
    for origin, requested_s in control.robots_requests(crawl.name):
        if crawler.reread_robots(crawl, origin, requested_s) or clock.now_s() > requested_s + RETENTION_S:
            with suppress(DiskFull):
                control.remove_robots_request(crawl.name, origin)


async def announce(control: ControlFile, name: str, clock: Clock) -> None:
    """Announce a crawl, as soon as the disk has room for a row."""
    while True:
        try:
            control.begin(name, clock.now_s())
        except DiskFull:
            await clock.sleep(POLL_S)
        else:
            return


def write_account(control: ControlFile, series: SeriesWriter, crawl: Crawl, clock: Clock, seconds: float) -> None:
    """Write a crawl's account and its current activity; on a full disk the last one stays until there is room."""
    summary = summarize(crawl, seconds)
    account = {**asdict(summary), "live": crawl.live.account(crawl.queues.values(), clock)}
    with suppress(DiskFull):
        control.write_account(crawl.name, account, clock.now_s())
        series.note(summary, clock.now_s())


async def reconfigure_crawl(
    crawler: Crawler, crawl: Crawl, root: Root, edits: str, also_live: Collection[str] = ()
) -> str:
    """Apply edits to the settings of a running crawl, as far as it can do so now; return the answer.

    `also_live` are settings that the caller itself applies at once.
    """
    wanted = from_json(edits)
    # Shared settings are those of the first crawl.
    live = [edit for edit in wanted if edit.key in LIVE and (crawl.number == 0 or edit.key not in SHARED)]
    live += [edit for edit in wanted if edit.key in also_live]
    try:
        config = apply_edits(crawl.config, live)
        # A long list of rules takes a second to read: not on the loop.
        compiled = await asyncio.to_thread(compile_settings, config, root.collection(crawl.name).lists)
    except TeiaError as error:
        return json.dumps({"error": str(error)})
    crawler.reconfigure(crawl, config, compiled)
    return json.dumps({"now": [edit.key for edit in live]})
