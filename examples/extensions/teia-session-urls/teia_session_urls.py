"""A scope rule: URLs that carry the number of a session, which are new for every visitor.

teia crawl https://example.org/ --data archive --exclude py:session-url
"""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

NAMES = {"jsessionid", "phpsessid", "sessionid", "session_id", "sid"}


def has_session(url: str) -> bool:
    """Tell whether a URL names a session, in its query or behind a semicolon in its path. It is called often."""
    if "?" not in url and ";" not in url:
        return False
    parts = urlsplit(url)
    parameters = {each.partition("=")[0].lower() for each in parts.path.split(";")[1:]}
    return bool(NAMES & (parameters | {name.lower() for name, _ in parse_qsl(parts.query)}))
