"""`teia crawl`: seeds in, an archive and a frontier out; after an interruption the same command continues."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from teia.cli.options import AsJson, ConfigFile, Data, NewName, RunMode
from teia.config.sections import FLAGS, KINDS, ORDERS, settings_of_flags
from teia.crawler.child import answer_reader
from teia.errors import TeiaError, UsageError
from teia.parse.children.spawn import ZygoteProcess
from teia.store.root import Root, discard_unused, open_root

Rules = Annotated[
    list[str] | None, typer.Option(metavar="RULE", help="Include rule, such as domain:example.org; may be repeated.")
]
Excluded = Annotated[list[str] | None, typer.Option(metavar="RULE", help="Exclude rule; may be repeated.")]
MaxPages = Annotated[int | None, typer.Option(help="Stop after this number of pages.")]
MaxDepth = Annotated[int | None, typer.Option(help="Maximum number of links from a seed to a page.")]
MaxSeconds = Annotated[float | None, typer.Option(help="Stop after this number of seconds.")]
Delay = Annotated[
    float | None,
    typer.Option(help="Delay between two requests to a server, in seconds; 0 only for hosts that are yours."),
]
OrderName = Annotated[str | None, typer.Option(help=f"Crawl order: {', '.join(ORDERS[:-1])} or {ORDERS[-1]}.")]
PerHost = Annotated[
    int | None, typer.Option(help="Parallel requests to one host; more than 1 only for hosts that are yours.")
]
MaxHosts = Annotated[int | None, typer.Option(help="Maximum number of hosts crawled in parallel.")]
Kind = Annotated[
    str | None, typer.Option(help=f"Purpose: {' or '.join(KINDS)}; an archive also fetches images and style sheets.")
]
Requisites = Annotated[
    bool | None, typer.Option("--requisites", help="Fetch page requisites too: images, style sheets and scripts.")
]
Resolve = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATTERN=ADDRESS[:PORT]", help="Connect matching host names to this address; may be repeated."
    ),
]
Dns = Annotated[str | None, typer.Option(metavar="ADDRESS[:PORT]", help="DNS resolver to use instead of the system's.")]
AllowNet = Annotated[
    list[str] | None,
    typer.Option(metavar="CIDR", help="Allow a network that the address guard blocks; may be repeated."),
]
NoIndex = Annotated[bool | None, typer.Option("--no-index", help="Do not update the search index.")]
KeepFresh = Annotated[
    bool | None, typer.Option("--keep-fresh/--no-keep-fresh", help="Revisit known pages until the crawl is stopped.")
]
Policy = Annotated[str | None, typer.Option(metavar="NAME", help="Policy that schedules revisits: edf, index, psp …")]
Budget = Annotated[int | None, typer.Option(help="Requests a day of all hosts together, with --keep-fresh.")]
Scheduled = Annotated[bool, typer.Option("--scheduled", help="Run the schedules of all collections.")]
Now = Annotated[
    bool, typer.Option("--now", help="Start a run now, regardless of the schedule; known pages are revisited.")
]
Resident = Annotated[
    bool, typer.Option("--resident", help="Crawl on behalf of `teia serve`, which starts this itself.")
]
Cells = Annotated[int | None, typer.Option(help="Number of cells (partitions) of a new collection.")]


def crawl(
    data: Data,
    seeds: Annotated[list[str] | None, typer.Argument(metavar="SEED...", help="URLs where the crawl starts.")] = None,
    config: ConfigFile = None,
    name: NewName = None,
    max_pages: MaxPages = None,
    max_depth: MaxDepth = None,
    max_seconds: MaxSeconds = None,
    delay: Delay = None,
    order: OrderName = None,
    scope: Rules = None,
    exclude: Excluded = None,
    per_host: PerHost = None,
    max_hosts: MaxHosts = None,
    kind: Kind = None,
    requisites: Requisites = None,
    resolve: Resolve = None,
    dns: Dns = None,
    allow_net: AllowNet = None,
    cells: Cells = None,
    keep_fresh: KeepFresh = None,
    policy: Policy = None,
    budget: Budget = None,
    no_index: NoIndex = None,
    scheduled: Scheduled = False,
    now: Now = False,
    resident: Resident = False,
    as_json: AsJson = False,
) -> None:
    """Crawl politely from the SEEDs into --data; run it again to continue where it stopped.

    A collection with a schedule (`teia schedule`) waits for its next run.
    RULE: host:NAME domain:NAME suffix:.br prefix:URL regex:EXPR type:text/html lang:pt query:no py:MODULE.NAME @FILE,
    and not(RULE), and(RULE, RULE). Repeated rules are "or". Example:
    teia crawl https://example.org/ --data archive --max-pages 1000
    """
    # None: the flag was not given, and the value of the file or the default stays.
    given = {flag: value for flag, value in locals().items() if flag in FLAGS}
    index = False if no_index else None
    flags = {"collection.seeds": seeds or None, "index.enabled": index, **settings_of_flags(given)}
    when = _when(scheduled, resident, now, is_new=bool(seeds or config))
    is_new = not data.exists()
    # The other modes work on existing collections; there a misspelt --data must not create a folder.
    root = open_root(data, create=when in {RunMode.AS_CONFIGURED, RunMode.NOW})
    try:
        crawl_with(root, name, config, flags, as_json, when)
    except TeiaError:
        if is_new:
            discard_unused(root)
        raise


def _when(scheduled: bool, resident: bool, now: bool, *, is_new: bool) -> RunMode:
    if (scheduled or resident) and (now or is_new):
        raise UsageError(
            f"--{'scheduled' if scheduled else 'resident'} crawls existing collections; it cannot be combined with"
            " --now, --config or a SEED"
        )
    if resident:
        return RunMode.AS_ORDERED
    return RunMode.SCHEDULED if scheduled else RunMode.NOW if now else RunMode.AS_CONFIGURED


def crawl_with(
    root: Root,
    name: str | None,
    file: Path | None,
    flags: dict[str, Any],
    as_json: bool,
    when: RunMode = RunMode.AS_CONFIGURED,
    *,
    is_kept: bool = True,
) -> None:
    """Crawl one collection of a root with these flags, or all if none is named; then report.

    `is_kept`: the folder stays, so that other commands on it can be proposed.
    The parse children begin with half a second of imports, and so does this process: both run at once.
    """
    with root.locked():
        zygote = ZygoteProcess.start(answer_reader)
        try:
            # Only now: these imports run while the zygote makes its own.
            from teia.cli.crawl.run_crawl import crawl_and_report

            crawl_and_report(root, name, file, flags, as_json, zygote, when, is_kept=is_kept)
        finally:
            zygote.abandon()
