"""The browser that is installed on this machine."""

from __future__ import annotations

import shutil

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "chrome-headless-shell")
"""Names of the browser, in the order in which they are looked for."""


def find_browser() -> str | None:
    """Return the path of the installed browser; None if there is none."""
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)
