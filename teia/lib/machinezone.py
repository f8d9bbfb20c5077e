"""The time zone that this machine is set to, by the name that calendars know it by."""

from __future__ import annotations

import os
from pathlib import Path

LOCALTIME = Path("/etc/localtime")
ZONES = "zoneinfo/"


def machine_zone(localtime: Path = LOCALTIME) -> str:
    """Return the time zone of `TZ`, else that of /etc/localtime; `UTC` where neither names a zone."""
    named = os.environ.get("TZ", "").removeprefix(":")
    if named:
        return named.partition(ZONES)[2] or named
    try:
        target = str(localtime.resolve(strict=True))
    except OSError:
        return "UTC"
    return target.partition(ZONES)[2] or "UTC"
