"""URLs as a cell stores them: a host has one row, so only the tails of its URLs are stored."""

from __future__ import annotations


def tail_of(url: str, host: str) -> str:
    """Return the stored part of a canonical URL: all but scheme and host, with `s` in front for https."""
    if url.startswith("https://"):
        return "s" + url[8 + len(host) :]
    return url[7 + len(host) :]


def url_from(host: str, tail: str) -> str:
    return f"https://{host}{tail[1:]}" if tail.startswith("s") else f"http://{host}{tail}"
