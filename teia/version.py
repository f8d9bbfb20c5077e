"""The version of teia, as commands, pages and requests state it, and the build it comes from."""

from __future__ import annotations

__version__ = "1.0.0"

BUILD_FILE = __file__.removesuffix("version.py") + "build.json"
"""Commit and date, written when a wheel or an sdist is built (setup.py); a checkout has no such file."""


def describe_build(build_file: str = BUILD_FILE) -> str:
    """Return the facts that a report of a fault needs: commit, interpreter, libraries, machine."""
    # Imported here, because `import teia` imports this module and should cost next to nothing.
    import json
    import platform
    import sqlite3
    from pathlib import Path

    try:
        facts = json.loads(Path(build_file).read_bytes())
        source = f"commit {facts['commit'] or 'unknown'} of {facts['date'][:10]}"
    except (OSError, ValueError, KeyError):
        source = "from a checkout"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{source}; {python}, SQLite {sqlite3.sqlite_version}, {platform.machine()}"
