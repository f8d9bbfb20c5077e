"""`teia watch …`: pages and searches that somebody wants to be told of."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from teia.cli.options import AsJson, Collection, Data
from teia.cli.output import print_json, result_console
from teia.errors import UsageError

if TYPE_CHECKING:
    from teia.notify.subscriptions import Watched
    from teia.store.root import Root

app = typer.Typer(help="Be told when a page changes, or a search finds something new.", no_args_is_help=True)

Page = Annotated[str, typer.Argument(metavar="[URL]", help="The page to watch.")]
Search = Annotated[str, typer.Option("--search", metavar="QUERY", help="Watch what a search finds instead.")]
Webhook = Annotated[str, typer.Option("--webhook", metavar="URL", help="Where to post what there is to tell.")]
Identity = Annotated[str, typer.Argument(metavar="ID", help="The subscription, as `teia watch list` shows it.")]


@app.command("add")
def add(
    data: Data,
    url: Page = "",
    search: Search = "",
    webhook: Webhook = "",
    collection: Collection = None,
    as_json: AsJson = False,
) -> None:
    """Watch a page, or what a search finds. There is a feed for it, and messages to a webhook if one is named.

    Examples: teia watch add https://example.org/prices --webhook https://me.example/hook --data archive
    · teia watch add --search '+budget site:example.org' --data archive
    """
    from teia.clock import WallClock
    from teia.cluster.search.processes import post_of
    from teia.notify.subscriptions import subscribe

    root, name = _opened(data, collection)
    if post_of(root, name) is not None:
        raise UsageError(f"{name} is crawled by a cluster, where nothing can be watched yet")
    made = subscribe(root, name, WallClock(), url=url, query=search, webhook=webhook, who="command line")
    if as_json:
        print_json({**asdict(made.subscription), "secret": made.secret or None})
        return
    console = result_console()
    console.print(_line(made.subscription), markup=False, soft_wrap=True)
    console.print(f"feed: /c/{name}/feed/{made.subscription.feed} of `teia serve`", markup=False, soft_wrap=True)
    if made.secret:
        console.print(f"secret, shown this once: {made.secret}", markup=False, soft_wrap=True)


@app.command("list")
def list_(data: Data, collection: Collection = None, as_json: AsJson = False) -> None:
    """List what is watched, and how telling it goes."""
    from teia.notify.subscriptions import subscriptions_of

    root, name = _opened(data, collection)
    found = subscriptions_of(root.collection(name))
    if as_json:
        print_json({"collection": name, "subscriptions": [asdict(each) for each in found]})
        return
    console = result_console()
    if not found:
        console.print(f"{name}: nothing is watched")
    for each in found:
        console.print(_line(each), markup=False, soft_wrap=True)


@app.command("remove")
def remove(identity: Identity, data: Data, collection: Collection = None, as_json: AsJson = False) -> None:
    """Stop watching something; messages that wait are not sent."""
    from teia.notify.subscriptions import unsubscribe

    root, name = _opened(data, collection)
    gone = unsubscribe(root, name, identity)
    if as_json:
        print_json(asdict(gone))
    else:
        result_console().print(f"{gone.what} is not watched any more", markup=False, soft_wrap=True)


@app.command("try")
def try_(identity: Identity, data: Data, collection: Collection = None, as_json: AsJson = False) -> None:
    """Send a message to a webhook that says nothing but that it arrives; messages that wait are tried at once.

    It leaves with the next round of `teia serve` or of a crawl; `teia watch list` then says what came of it.
    """
    from teia.clock import WallClock
    from teia.notify.subscriptions import try_webhook

    root, name = _opened(data, collection)
    tried = try_webhook(root, name, WallClock(), identity)
    if as_json:
        print_json(asdict(tried))
    else:
        result_console().print(_line(tried), markup=False, soft_wrap=True)


def _opened(data: Data, collection: str | None) -> tuple[Root, str]:
    from teia.collections.stored import choose
    from teia.store.root import open_root

    root = open_root(data)
    return root, choose(root, collection)


def _line(each: Watched) -> str:
    counts = {"waiting": each.waiting, "delivered": each.delivered, "given up": each.given_up, "dropped": each.dropped}
    numbers = ", ".join(f"{number:,} {word}" for word, number in counts.items() if number)
    parts = [each.id, each.kind, each.what, each.webhook or "feed alone", numbers]
    problem = f"{each.problem}, tried again {each.again}" if each.problem else ""
    return "  ".join(part for part in (*parts, problem) if part)
