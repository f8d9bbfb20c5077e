"""`teia watch …`: subscriptions to pages and searches."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from teia.cli.options import AsJson, Collection, Data, open_collection
from teia.cli.output import print_json, result_console
from teia.errors import UsageError

if TYPE_CHECKING:
    from teia.notify.subscriptions import ListedSubscription

app = typer.Typer(help="Subscribe to changes of a page, or to new results of a search.", no_args_is_help=True)

Page = Annotated[str, typer.Argument(metavar="[URL]", help="URL of the page to watch.")]
Search = Annotated[
    str, typer.Option("--search", metavar="QUERY", help="Watch the results of this search instead of a page.")
]
Webhook = Annotated[str, typer.Option("--webhook", metavar="URL", help="URL of a webhook that receives notifications.")]
Identity = Annotated[str, typer.Argument(metavar="ID", help="ID of the subscription, as listed by `teia watch list`.")]


@app.command("add")
def add(
    data: Data,
    url: Page = "",
    search: Search = "",
    webhook: Webhook = "",
    collection: Collection = None,
    as_json: AsJson = False,
) -> None:
    """Subscribe to a page, or to the results of a search: as a feed, and with --webhook also as HTTP messages.

    Examples: teia watch add https://example.org/prices --webhook https://me.example/hook --data archive
    · teia watch add --search '+budget site:example.org' --data archive
    """
    from teia.clock import WallClock
    from teia.cluster.search.processes import read_librarian_settings
    from teia.notify.subscriptions import subscribe

    root, name = open_collection(data, collection)
    # A node's folder has only some of the cells, and the notifier reads one folder.
    if read_librarian_settings(root, name) is not None:
        raise UsageError(f"{name} is crawled by a cluster; subscriptions are not supported there yet")
    made = subscribe(root, name, WallClock(), url=url, query=search, webhook=webhook, who="command line")
    if as_json:
        print_json({**asdict(made.subscription), "secret": made.secret or None})
        return
    console = result_console()
    console.print(_line(made.subscription), markup=False, soft_wrap=True)
    console.print(f"feed: /c/{name}/feed/{made.subscription.feed} of `teia serve`", markup=False, soft_wrap=True)
    if made.secret:
        console.print(f"secret, shown only once: {made.secret}", markup=False, soft_wrap=True)


@app.command("list")
def list_(data: Data, collection: Collection = None, as_json: AsJson = False) -> None:
    """List subscriptions and the state of their deliveries."""
    from teia.notify.subscriptions import list_subscriptions

    root, name = open_collection(data, collection)
    found = list_subscriptions(root.collection(name))
    if as_json:
        print_json({"collection": name, "subscriptions": [asdict(each) for each in found]})
        return
    console = result_console()
    if not found:
        console.print(f"{name}: no subscriptions")
    for each in found:
        console.print(_line(each), markup=False, soft_wrap=True)


@app.command("remove")
def remove(identity: Identity, data: Data, collection: Collection = None, as_json: AsJson = False) -> None:
    """Remove a subscription; notifications that were not delivered yet are discarded."""
    from teia.notify.subscriptions import unsubscribe

    root, name = open_collection(data, collection)
    gone = unsubscribe(root, name, identity)
    if as_json:
        print_json(asdict(gone))
    else:
        result_console().print(f"subscription to {gone.what} removed", markup=False, soft_wrap=True)


@app.command("try")
def try_(identity: Identity, data: Data, collection: Collection = None, as_json: AsJson = False) -> None:
    """Send a test message to a webhook; pending notifications are retried at once.

    It is sent with the next round of `teia serve` or of a crawl; `teia watch list` then shows the result.
    """
    from teia.clock import WallClock
    from teia.notify.subscriptions import send_test_message

    root, name = open_collection(data, collection)
    tried = send_test_message(root, name, WallClock(), identity)
    if as_json:
        print_json(asdict(tried))
    else:
        result_console().print(_line(tried), markup=False, soft_wrap=True)


def _line(each: ListedSubscription) -> str:
    counts = {"waiting": each.waiting, "delivered": each.delivered, "given up": each.given_up, "dropped": each.dropped}
    numbers = ", ".join(f"{number:,} {word}" for word, number in counts.items() if number)
    parts = [each.id, each.kind, each.what, each.webhook or "feed only", numbers]
    problem = f"{each.problem}, next attempt {each.again}" if each.problem else ""
    return "  ".join(part for part in (*parts, problem) if part)
