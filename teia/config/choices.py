"""Names that settings choose from, listed once for the settings, the command line and the web."""

from __future__ import annotations

ORDERS = ("breadth", "depth", "backlinks", "pagerank", "focused", "sydney")
"""Orders of a host's new URLs; frontier/queue/order.py has them."""

POLICIES = (
    "psp", "psp-centred", "psp-aged", "mp2", "m-wolf", "uniform", "proportional", "cho", "edf", "index", "rate-update",
    "round-robin", "sampling", "user-centric",
)  # fmt: skip
"""Policies of revisits; refresh/policies.py has them."""
