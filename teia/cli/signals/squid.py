"""`teia signals squid-helper` and `teia signals status`: the cache parasite (C7)."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from teia.cli.options import AsJson, Collection, Data
from teia.cli.output import print_json, result_console
from teia.errors import UsageError

Socket = Annotated[Path | None, typer.Argument(metavar="SOCKET", help="Where the crawl listens: its signals.socket.")]
Queries = Annotated[bool, typer.Option("--queries", help="Announce URLs with a query too; they may tell of a person.")]
Conf = Annotated[bool, typer.Option("--conf", help="Print lines for squid.conf that attach the installed program.")]
AsWay = Annotated[
    str | None,
    typer.Option("--way", help="For --conf: log (the default), rewriter, acl (each page once in ten minutes)."),
]
Print = Annotated[bool, typer.Option("--print", help="Print the program, to be installed where Squid can read it.")]

WORDS = {
    "seen": "requests that Squid told its helper of",
    "skipped": "no page: a tunnel, another method than GET, another scheme",
    "private": "with a query or credentials: not taken",
    "malformed": "lines or messages that are none",
    "dropped": "no room: nobody listened, or too many at once",
    "no_document": "pictures, styles and scripts, by their names",
    "out_of_scope": "not of this collection",
    "echoes": "our own requests to the cache",
    "in_scope": "announcements of pages that may be ours",
    "repeated": "announced again while they waited",
    "discarded": "updates discarded: our copy was young enough",
    "refused": "robots.txt, budgets, or not to be collected",
    "under_way": "about to be visited anyway",
    "asked": "pages the cache was asked for",
    "not_cached": "pages it did not have",
    "unusable": "answers that are no documents",
    "unreachable": "times it could not be reached",
    "served": "pages it had",
    "served_within_1s": "pages it gave within a second",
    "no_newer": "no newer than our copy",
    "updated": "updates performed",
    "new": "new documents",
    "received": "pages that sites or hubs told of",
    "taken": "of these, visited soon",
    "unheard": "of hosts whose word proved to be worth nothing",
    "passed_on": "sent to the node that crawls the page",
    "forged": "with a key or signature that is not right",
    "unsigned": "pushes without a signature",
    "oversized": "pushes that are too long",
    "unasked": "pushes of a hub that was not asked to, or not any more",
}


def squid_helper(
    socket: Socket = None,
    queries: Queries = False,
    print_it: Print = False,
    conf: Conf = False,
    way: AsWay = None,
) -> None:
    """Run beside a Squid and announce the pages its users ask for; their requests are left as they are.

    Squid runs it as its own user. If that one cannot read teia, print the program and install it: it is one file.

    Examples: teia signals squid-helper --print > /usr/local/lib/teia-announce-log
    · teia signals squid-helper --conf /run/teia/squid.sock
    · teia signals squid-helper /run/teia/squid.sock    (as rewriter or ACL)
    """
    from teia.signals import squid_helper as program

    if way is not None and not conf:
        raise UsageError("--way says which lines --conf prints, and goes with it")
    if print_it and conf:
        raise UsageError("--print prints the program and --conf lines for squid.conf; one at a time")
    source = Path(program.__file__)
    if print_it:
        print(source.read_text("utf-8"), end="")
        return
    if socket is None:
        raise UsageError("name the SOCKET where the crawl listens, or --print the program")
    if conf:
        print(_conf(socket, way, queries=queries), end="")
        return
    words = ["-IS", str(source), *(["--queries"] if queries else []), str(socket)]
    os.execv(sys.executable, [sys.executable, *words])  # noqa: S606  # a process without teia's modules in it


def _conf(socket: Path, way: str | None, *, queries: bool) -> str:
    """Lines for squid.conf, where a path is a word of a line."""
    from teia.signals.squid_conf import DEFAULT, WAYS, lines

    known = next((each for each in WAYS if each == (way or DEFAULT)), None)
    if known is None:
        raise UsageError(f"--way {way}: it is one of {', '.join(WAYS)}")
    if queries and known == "log":
        raise UsageError("--queries: a log daemon is given no flags; choose --way rewriter or --way acl")
    if not socket.is_absolute() or any(each.isspace() or each in "\"'#" for each in str(socket)):
        raise UsageError(f"{socket}: squid.conf needs a whole path, without spaces, quotes or #")
    return lines(known, str(socket), words=["--queries"] if queries else [])


def status(data: Data, collection: Collection = None, as_json: AsJson = False) -> None:
    """Show what became of signals so far, by kind.

    Example: teia signals status --data archive
    """
    from teia.collections.stored import choose
    from teia.crawler.signals_in.inbox import counts_in
    from teia.crawler.signals_in.websub import states_in
    from teia.store.root import open_root

    root = open_root(data)
    name = choose(root, collection)
    folder = root.collection(name)
    counts, hubs = counts_in(folder.signals), states_in(folder)
    if as_json:
        answer: dict[str, Any] = {"collection": name, "signals": counts, "hubs": dict(hubs)}
        print_json(answer)
        return
    console = result_console()
    if not counts:
        console.print(f"{name}: there were no signals so far")
    for state, number in hubs.items():
        console.print(f"{'hubs':10} {number:>12,}  feeds whose hub is {state}", soft_wrap=True)
    for kind, numbers in counts.items():
        order = {what: place for place, what in enumerate(WORDS)}
        for what in sorted(numbers, key=lambda each: order.get(each, len(order))):
            said = WORDS.get(what, what.replace("_", " "))
            console.print(f"{kind:10} {numbers[what]:>12,}  {said}", soft_wrap=True)
