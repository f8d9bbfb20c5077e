"""`teia crawl`: seeds in, an archive and a frontier out; interrupted or killed, the same command goes on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from teia.cli.options import AsJson, Data, When
from teia.config.choices import ORDERS
from teia.config.flags import by_key
from teia.crawler.child import JOB
from teia.errors import UsageError
from teia.parse.children.spawn import ZygoteProcess
from teia.store.root import Root, open_root

Rules = Annotated[list[str] | None, typer.Option(metavar="RULE", help="What belongs to it, like domain:example.org.")]
Excluded = Annotated[list[str] | None, typer.Option(metavar="RULE", help="What does not.")]
File = Annotated[Path | None, typer.Option("--config", metavar="FILE.toml", help="Settings of a new collection.")]
Name = Annotated[str | None, typer.Option("--name", "--collection", help="The collection; made if it is new.")]
MaxPages = Annotated[int | None, typer.Option(help="Stop after so many pages.")]
MaxDepth = Annotated[int | None, typer.Option(help="Follow links so many hops from a seed.")]
MaxSeconds = Annotated[float | None, typer.Option(help="Stop after so long.")]
Delay = Annotated[float | None, typer.Option(help="Seconds a server rests; 0 only for hosts that are yours.")]
OrderName = Annotated[str | None, typer.Option(help=f"{', '.join(ORDERS[:-1])} or {ORDERS[-1]}.")]
PerHost = Annotated[int | None, typer.Option(help="Requests at once to one host; more only for your own.")]
MaxHosts = Annotated[int | None, typer.Option(help="Servers visited at the same time.")]
Requisites = Annotated[bool | None, typer.Option("--requisites", help="Also fetch what pages need to be shown.")]
Resolve = Annotated[
    list[str] | None, typer.Option(metavar="PATTERN=ADDRESS[:PORT]", help="Where matching names are reached.")
]
Dns = Annotated[str | None, typer.Option(metavar="ADDRESS[:PORT]", help="The resolver to ask.")]
AllowNet = Annotated[list[str] | None, typer.Option(metavar="CIDR", help="A network the guard would refuse.")]
NoIndex = Annotated[bool | None, typer.Option("--no-index", help="Leave the search index alone.")]
KeepFresh = Annotated[
    bool | None, typer.Option("--keep-fresh/--no-keep-fresh", help="Visit known pages again, until told to stop.")
]
Policy = Annotated[str | None, typer.Option(metavar="NAME", help="Which known page comes next: edf, index, psp …")]
Scheduled = Annotated[bool, typer.Option("--scheduled", help="Serve the schedules of all collections there are.")]
Now = Annotated[bool, typer.Option("--now", help="A run at once, whatever the schedule says: known pages again too.")]
Resident = Annotated[bool, typer.Option("--resident", help="Crawl what `teia serve` is told; it starts this itself.")]
Cells = Annotated[int | None, typer.Option(help="Parts a new collection is split into.")]


def crawl(
    data: Data,
    seeds: Annotated[list[str] | None, typer.Argument(metavar="SEED...", help="Where to begin.")] = None,
    config: File = None,
    name: Name = None,
    max_pages: MaxPages = None,
    max_depth: MaxDepth = None,
    max_seconds: MaxSeconds = None,
    delay: Delay = None,
    order: OrderName = None,
    scope: Rules = None,
    exclude: Excluded = None,
    per_host: PerHost = None,
    max_hosts: MaxHosts = None,
    requisites: Requisites = None,
    resolve: Resolve = None,
    dns: Dns = None,
    allow_net: AllowNet = None,
    cells: Cells = None,
    keep_fresh: KeepFresh = None,
    policy: Policy = None,
    no_index: NoIndex = None,
    scheduled: Scheduled = False,
    now: Now = False,
    resident: Resident = False,
    as_json: AsJson = False,
) -> None:
    """Crawl from SEEDs, politely, into --data; run it again to go on where it stopped.

    A collection with a schedule (`teia schedule`) waits for its time.
    RULE: host:NAME domain:NAME suffix:.br prefix:URL regex:EXPR type:text/html lang:pt query:no py:MODULE.NAME @FILE,
    and not(RULE), and(RULE, RULE). Repeated rules are "or". Example:
    teia crawl https://example.org/ --data archive --max-pages 1000
    """
    given = {
        "cells": cells,
        "order": order,
        "max_pages": max_pages,
        "max_seconds": max_seconds,
        "max_depth": max_depth,
        "scope": scope,
        "exclude": exclude,
        "delay": delay,
        "per_host": per_host,
        "max_hosts": max_hosts,
        "requisites": requisites,
        "keep_fresh": keep_fresh,
        "policy": policy,
        "resolve": resolve,
        "dns": dns,
        "allow_net": allow_net,
    }
    index = False if no_index else None
    flags = {"collection.seeds": seeds or None, "index.enabled": index, **by_key(given)}
    when = _when(scheduled, resident, now, is_new=bool(seeds or config))
    crawl_with(open_root(data, create=when in {When.AS_CONFIGURED, When.NOW}), name, config, flags, as_json, when)


def _when(scheduled: bool, resident: bool, now: bool, *, is_new: bool) -> When:
    if (scheduled or resident) and (now or is_new):
        raise UsageError(
            f"--{'scheduled' if scheduled else 'resident'} serves collections that are there; it goes with neither"
            " --now, --config nor a SEED"
        )
    if resident:
        return When.AS_ORDERED
    return When.SCHEDULED if scheduled else When.NOW if now else When.AS_CONFIGURED


def crawl_with(
    root: Root,
    name: str | None,
    file: Path | None,
    flags: dict[str, Any],
    as_json: bool,
    when: When = When.AS_CONFIGURED,
) -> None:
    """Crawl one collection of a root with these flags, or all of them where nothing says which; and report.

    The parse children begin with half a second of imports, and so do we: both at once.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy would start threads that a crawler never uses
    with root.locked():
        zygote = ZygoteProcess.start(JOB)
        try:
            from teia.cli.crawl.run_crawl import crawl_and_report

            crawl_and_report(root, name, file, flags, as_json, zygote, when)
        finally:
            zygote.abandon()
