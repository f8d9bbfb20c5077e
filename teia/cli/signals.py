"""`teia signals …`: change signals from Squid caches (C7), logs and sites."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from teia.cli.options import AsJson, Collection, Data, open_collection
from teia.cli.output import print_json, progress_console, result_console
from teia.errors import UsageError

app = typer.Typer(help="Change signals: Squid caches, access logs, pings of sites.", no_args_is_help=True)

Socket = Annotated[
    Path | None,
    typer.Argument(
        metavar="SOCKET",
        help="Socket of the crawler (signals.socket); SOCKET@NAME names one of several caches (signals.caches).",
    ),
]
Queries = Annotated[
    bool, typer.Option("--queries", help="Announce URLs with a query string too; they may contain personal data.")
]
Conf = Annotated[bool, typer.Option("--conf", help="Print configuration lines for squid.conf.")]
AsWay = Annotated[
    str | None,
    typer.Option(
        "--way", help="Integration for --conf: log (default), rewriter, or acl (each page at most once in ten minutes)."
    ),
]
Print = Annotated[
    bool, typer.Option("--print", help="Print the helper program, to be installed where Squid can read it.")
]

DESCRIPTIONS = {
    "seen": "requests reported by Squid",
    "skipped": "ignored: tunnels, methods other than GET, other URL schemes",
    "private": "ignored: URLs with a query string or credentials",
    "malformed": "malformed lines or messages",
    "dropped": "dropped: the crawler was not listening, or the queue was full",
    "no_document": "ignored: images, style sheets and scripts, by name",
    "unknown_cache": "ignored: caches that signals.caches does not name",
    "out_of_scope": "out of scope",
    "echoes": "requests of teia itself to the cache",
    "in_scope": "announcements in scope",
    "repeated": "repeated announcements of queued pages",
    "discarded": "updates discarded: the capture was recent enough",
    "refused": "rejected by robots.txt, budgets or settings",
    "under_way": "already scheduled for a visit",
    "asked": "pages requested from the cache",
    "not_cached": "pages not in the cache",
    "unusable": "responses that are not documents",
    "unreachable": "failed connections to the cache",
    "served": "pages delivered by the cache",
    "served_within_1s": "pages delivered within one second",
    "no_newer": "not newer than the capture",
    "updated": "captures updated",
    "new": "new documents",
    "received": "pages reported by sites or hubs",
    "taken": "of these, scheduled for an early visit",
    "unheard": "ignored: hosts whose signals proved unreliable",
    "passed_on": "forwarded to the node that crawls the page",
    "forged": "invalid key or signature",
    "unsigned": "pushes without a signature",
    "oversized": "pushes larger than the limit",
    "unasked": "pushes of hubs without a subscription",
}


@app.command("squid-helper")
def squid_helper(
    socket: Socket = None,
    queries: Queries = False,
    print_it: Print = False,
    conf: Conf = False,
    way: AsWay = None,
) -> None:
    """Run beside a Squid cache and announce the pages its users request; the requests are not changed.

    Squid runs it as its own user. If that user cannot read teia, print the program and install it: it is one file.

    Examples: teia signals squid-helper --print > /usr/local/lib/teia-announce-log
    · teia signals squid-helper --conf /run/teia/squid.sock
    · teia signals squid-helper /run/teia/squid.sock    (as rewriter or ACL)
    """
    from teia.signals import squid_helper as program

    if way is not None and not conf:
        raise UsageError("--way requires --conf")
    if print_it and conf:
        raise UsageError("--print and --conf cannot be combined; use one of them")
    source = Path(program.__file__)
    if print_it:
        print(source.read_text("utf-8"), end="")
        return
    if socket is None:
        raise UsageError("missing SOCKET of the crawler; or use --print")
    if conf:
        print(_conf(socket, way, queries=queries), end="")
        return
    # -I and -S: the helper uses the standard library alone, and no module of its user is loaded.
    words = ["-IS", str(source), *(["--queries"] if queries else []), str(socket)]
    os.execv(sys.executable, [sys.executable, *words])  # noqa: S606  # a process without teia's modules in it


def _conf(socket: Path, way: str | None, *, queries: bool) -> str:
    """Return the lines for squid.conf, where a path is one word of a line."""
    from teia.signals.squid_conf import DEFAULT, WAYS, lines

    known = next((each for each in WAYS if each == (way or DEFAULT)), None)
    if known is None:
        raise UsageError(f"--way {way}: must be one of {', '.join(WAYS)}")
    if queries and known == "log":
        raise UsageError("--queries is not available for a log daemon; use --way rewriter or --way acl")
    # squid.conf splits its lines at blanks, and `#` begins a comment.
    if not socket.is_absolute() or any(each.isspace() or each in "\"'#" for each in str(socket)):
        raise UsageError(f"{socket}: squid.conf needs an absolute path without spaces, quotes or #")
    return lines(known, str(socket), words=["--queries"] if queries else [])


@app.command("status")
def status(data: Data, collection: Collection = None, as_json: AsJson = False) -> None:
    """Show the number of received signals, by kind and result.

    Example: teia signals status --data archive
    """
    from teia.crawler.signals_in.websub import states_in
    from teia.signals.announce import counts_in

    root, name = open_collection(data, collection)
    folder = root.collection(name)
    counts, hubs = counts_in(folder.signals), states_in(folder)
    if as_json:
        answer: dict[str, Any] = {"collection": name, "signals": counts, "hubs": dict(hubs)}
        print_json(answer)
        return
    console = result_console()
    if not counts:
        console.print(f"{name}: no signals received yet")
    for state, number in hubs.items():
        console.print(f"{'hubs':10} {number:>12,}  feeds with a hub in state {state}", soft_wrap=True)
    for kind, numbers in counts.items():
        # In the order of DESCRIPTIONS; counters of a newer crawler come last.
        order = {what: position for position, what in enumerate(DESCRIPTIONS)}
        for what in sorted(numbers, key=lambda each: order.get(each, len(order))):
            description = DESCRIPTIONS.get(what, what.replace("_", " "))
            console.print(f"{kind:10} {numbers[what]:>12,}  {description}", soft_wrap=True)


# ---- sources of other packages ---------------------------------------------------------------------------------------

SourceName = Annotated[str, typer.Argument(metavar="NAME", help="Name under which a package offers the source.")]
Words = Annotated[list[str] | None, typer.Argument(metavar="WORD...", help="Passed to the source.")]


@app.command("follow")
def follow(
    source: SourceName, data: Data, words: Words = None, collection: Collection = None, as_json: AsJson = False
) -> None:
    """Run a signal source of an installed package until it ends; the pages that it reports are visited sooner.

    Example: teia signals follow changed-files /srv/www https://www.example.org/ --data archive
    """
    from teia.clock import WallClock
    from teia.config.extensions import SIGNAL_SOURCES, extension_names, load_extension
    from teia.crawler.signals_in.follow_source import follow_source

    offered = load_extension(SIGNAL_SOURCES, source)
    if offered is None:
        names = ", ".join(extension_names(SIGNAL_SOURCES)) or "none"
        raise UsageError(f"no installed package offers the signal source {source!r}; available: {names}")
    root, name = open_collection(data, collection)
    counts = follow_source(root.collection(name).signals, offered(*(words or ())), WallClock())
    if as_json:
        print_json({"collection": name, "source": source, **{key: counts[key] for key in ("received", "malformed")}})
    else:
        progress_console().print(f"{name}: {counts['received']:,} pages reported, {counts['malformed']:,} malformed")


# ---- hits of pages, from logs of proxies and web servers -------------------------------------------------------------

Files = Annotated[
    list[Path], typer.Argument(metavar="FILE...", help="Access log files, plain or compressed with gzip.")
]
Name = Annotated[
    str | None, typer.Option("--collection", "--name", help="Name of the collection; needed if there are several.")
]
Format = Annotated[str, typer.Option("--format", help="Log format: squid, combined or common; auto detects it.")]
Site = Annotated[
    str,
    typer.Option(
        "--site", metavar="URL", help="URL of the site whose log it is; needed if the lines contain paths only."
    ),
]


@app.command("import-log")
def import_log(
    files: Files, data: Data, collection: Name = None, form: Format = "auto", site: Site = "", as_json: AsJson = False
) -> None:
    """Import access logs: requested pages in scope become known, and their weight grows with the number of requests.

    Client addresses are ignored; queries and credentials are cut off. Example: teia signals import-log access.log.gz
    --site https://www.example.org/ --data archive
    """
    from teia.clock import WallClock
    from teia.signals.accesslog import FORMATS
    from teia.store.root import open_root
    from teia.transfer.import_data import choose_collection, open_target
    from teia.transfer.import_hits import import_hits
    from teia.urls import from_user

    chosen = next((each for each in FORMATS if each == form), None)
    if chosen is None and form != "auto":
        raise UsageError(f"--format {form!r}: must be auto, {', '.join(FORMATS)}")
    whose = from_user(site) if site else ""
    if whose is None:
        raise UsageError(f"--site {site!r}: must be a URL, such as https://www.example.org/")
    root = open_root(data, create=False)
    with root.locked():
        # No hosts: a log gives no scope, so a new collection is refused with an error.
        name = choose_collection(root, collection, None, (), set)
        with open_target(root, name, WallClock()) as target:
            done = import_hits(target, root.collection(name), files, chosen, whose)
    console = progress_console()
    counts = [
        f"{value:,} {key.replace('_', ' ')}" for key, value in asdict(done).items() if type(value) is int and value
    ]
    if done.empty:
        console.print(f"{done.empty:,} of {len(files):,} logs are empty", markup=False)
    console.print(f"{done.collection}: {', '.join(counts) or 'nothing'}", markup=False)
    if as_json:
        print_json(asdict(done))
