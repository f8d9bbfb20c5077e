"""WebSub hub and topic of a feed (discovery): from its `Link` headers, or else from the feed itself."""

from __future__ import annotations

import re
from collections.abc import Mapping

from teia.parse.headers import Headers
from teia.urls import host_of, resolve, site_of

_LINK = re.compile(r"<([^<>]{1,4096})>((?:\s*;\s*[\w*!#$&+.^`|~-]+\s*=\s*(?:\"[^\"]*\"|[^\s;,\"]+))*)")
_REL = re.compile(r";\s*rel\s*=\s*(?:\"([^\"]*)\"|([^\s;,\"]+))", re.IGNORECASE)


def hub_of(url: str, headers: Headers, named: Mapping[str, str]) -> tuple[str, str]:
    """Return (hub, topic) of a feed; both empty if it has no hub. A topic on another site is ignored."""
    found = {**{word: named[word] for word in ("hub", "self") if word in named}, **_in_headers(headers)}
    hub = resolve(found.get("hub", ""), url, ()) if found.get("hub") else None
    if hub is None:
        return "", ""
    topic = resolve(found.get("self", ""), url, ()) if found.get("self") else None
    is_own = topic is not None and site_of(host_of(topic)) == site_of(host_of(url))
    return hub, topic if is_own and topic is not None else url


def _in_headers(headers: Headers) -> dict[str, str]:
    found: dict[str, str] = {}
    for value in headers.all("link"):
        for target, parameters in _LINK.findall(value):
            rel = _REL.search(parameters)
            for word in (rel[1] or rel[2] or "").lower().split() if rel is not None else ():
                if word in {"hub", "self"}:
                    found.setdefault(word, target)
    return found
