"""Flags of `teia crawl` as names of settings: for the command line, `teia set` and the Python interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FLAGS = {
    "cells": "collection.cells",
    "order": "collection.order",
    "max_pages": "limits.pages",
    "max_seconds": "limits.seconds",
    "max_depth": "scope.max_depth",
    "scope": "scope.include",
    "exclude": "scope.exclude",
    "delay": "courtesy.delay_s",
    "per_host": "courtesy.per_host",
    "max_hosts": "courtesy.max_hosts",
    "requisites": "archive.requisites",
    "resolve": "fetch.resolve",
    "dns": "fetch.dns",
    "allow_net": "fetch.allow_nets",
    "keep_fresh": "refresh.keep",
    "policy": "refresh.policy",
}
"""Flags of `teia crawl` that are also names of settings; every other setting is named by its section."""


def settings_of_flags(flags: Mapping[str, object]) -> dict[str, Any]:
    """Return the values of flags under the keys of their settings. None and an empty list mean: not given."""
    return {FLAGS[name]: None if value == [] else value for name, value in flags.items()}
