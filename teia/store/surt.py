"""The sort key of a URL in web archive indexes: Sort-friendly URI Reordering Transform.

`http://www.example.com/A?b` becomes `com,example)/a?b`: host labels are reversed so that a domain's pages sort
together, and parts that usually do not make another page are removed: scheme, `www`, default port, user, fragment,
letter case, a last slash, session ids, the order of parameters. The Wayback Machine and pywb look up this form, so it
follows their rules and not those of our own canonical form; the `url` field distinguishes two URLs with one key.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote_to_bytes

import ada_url

from teia.urls import DEFAULT_PORTS

MAX_UNESCAPES = 16
"""Escapes of escapes beyond this depth are left: each costs a pass over the text, and only malice makes them."""

_WWW = re.compile(r"www\d*\.")
_ASPX_SESSION = re.compile(r"/\((?:(?:[a-z]\([0-9a-z]{24}\))+|[0-9a-z]{24})\)(?=/[^?]+\.aspx)")
_QUERY_SESSIONS = tuple(
    re.compile(rf"^(.*){session}(?:&(.*))?$")
    for session in (
        r"jsessionid=[0-9a-z]{32}",
        r"phpsessid=[0-9a-z]{32}",
        r"sid=[0-9a-z]{32}",
        r"aspsessionid[a-z]{8}=[a-z]{24}",
        r"cfid=[^&]+&cftoken=[^&]+",
    )
)
_KEPT = "!\"$&'()*+,-./:;<=>?@[\\]^_`{|}~"


def surt(url: str) -> str:
    """Return the key of a URL; a text that is not a URL with a host is its own key, with blanks escaped."""
    try:
        parts = ada_url.URL(url)
    except ValueError:
        return quote(url.lower(), safe=_KEPT + "%", errors="surrogatepass")
    if not parts.hostname:
        return quote(parts.href.lower(), safe=_KEPT + "%#")
    key = f"{_host(parts.hostname)}{_port(parts)}){_path(parts.pathname)}"
    query = _query(parts.search.removeprefix("?"))
    return f"{key}?{query}" if query else key


def _host(host: str) -> str:
    if host.startswith("["):
        return host
    labels = _WWW.sub("", host.strip("."), count=1) if _WWW.match(host) else host.strip(".")
    return ",".join(reversed(labels.split(".")))


def _port(parts: ada_url.URL) -> str:
    default = DEFAULT_PORTS.get(parts.protocol.removesuffix(":"))
    return f":{parts.port}" if parts.port and parts.port != str(default) else ""


def _tidy(text: str) -> str:
    """Undo escapes until none is left, then escape once: one spelling for any number of escapings."""
    octets = text.encode()
    for _ in range(MAX_UNESCAPES):
        undone = unquote_to_bytes(octets)
        if undone == octets:
            break
        octets = undone
    return quote(octets, safe=_KEPT).lower()


def _path(path: str) -> str:
    kept: list[str] = []
    for segment in _tidy(path).split("/"):
        # Dot segments may appear only now: `_tidy` has undone escapes such as %2e%2e.
        if segment == "..":
            del kept[-1:]
        elif segment not in {"", "."}:
            kept.append(segment)
    return _ASPX_SESSION.sub("", "/" + "/".join(kept))


def _query(query: str) -> str:
    query = _tidy(query)
    for session in _QUERY_SESSIONS:
        match = session.match(query)
        if match:
            query = match[1] + (match[2] or "")
    # Compare names before values: as plain text, `a-b=1` would sort before `a=1`.
    return "&".join(sorted(query.split("&"), key=lambda parameter: tuple(parameter.split("=", 1))))
