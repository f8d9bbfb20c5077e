"""What somebody wants of a collection, said to whoever crawls it now and to whoever will (T2, T7)."""

from __future__ import annotations

from typing import Any

from teia.clock import Clock
from teia.crawl.control import Command, Control
from teia.crawl.orders import Order, Orders
from teia.store.root import Root


def order(root: Root, name: str, command: Command, clock: Clock) -> bool:
    """Let a command stand, and tell the crawl that runs; returns whether one does."""
    path, now_s = root.path / "control.sqlite", clock.now_s()
    orders, control = Orders(path), Control(path)
    try:
        orders.give(name, command, now_s)
        if control.run(name) is None:
            return False
        control.ask(name, command, now_s)
    finally:
        orders.close()
        control.close()
    return True


def order_of(root: Root, name: str) -> Order:
    """What is wanted of a collection."""
    orders = Orders(root.path / "control.sqlite")
    try:
        return orders.of(name)
    finally:
        orders.close()


def state_at_rest(order: Order) -> dict[str, Any]:
    """What an account says besides while nobody crawls the collection, though somebody wants something of it."""
    if order.paused_s is not None:
        return {"state": "paused", "paused_why": "asked to"}
    return {"state": "starting"} if order.wanted_s is not None else {}
