"""URLs: parsed, resolved, canonical; their host, site, slot and cell.

ada-url (WHATWG) is the only parser in teia, so that the URL that was checked is the URL that is fetched. Inside teia a
URL is a `str` in canonical form, made by `canonicalize` or `resolve`; both return None for URLs that we do not crawl
(other schemes, broken authorities) and never raise, for any input.

Canonical form is the WHATWG form changed by *rules*, each a name and a function over one part of the URL. The default
rules only change spelling (RFC 3986 section 6.2.2) and remove parameters that identify a visitor rather than a page;
rules that guess (sorted parameters, doubled slashes, `index.html`) exist but must be enabled. Any set of rules is
idempotent (tests/test_urls.py).

A *site* is the registered domain by the public suffix list, private part included: `a.b.com.br` is `b.com.br`, and
`x.github.io` is itself. Its SHA-1 falls into one of 1,024 slots, the leading ten bits, so slots keep the order of the
Chord circle (A2); a cell keeps a range of slots.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

import ada_url
import xxhash
from publicsuffixlist import PSLFILE, PublicSuffixList

SLOTS = 1024
MAX_REFERENCE_CHARS = 65_536
"""Longer references are refused unread, and so is a reference that escaping makes longer than this (or its canonical
form would not be canonical). How long a crawled URL may be is a limit of the collection."""

MAX_PASSES = 8
"""Most rounds of the rules. A URL that has not settled by then was made to do harm, and is refused."""

DEFAULT_PORTS = {"http": 80, "https": 443}


class Parts(NamedTuple):
    """The parts of a canonical URL. `target` is the request target: path and query."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]

    @property
    def authority(self) -> str:
        """Host, and the port where it is not the scheme's own: the value of a Host header."""
        return self.host if self.port == DEFAULT_PORTS[self.scheme] else f"{self.host}:{self.port}"


# ---- canonical form -------------------------------------------------------------------------------------------------

_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_UNTIDY = re.compile(r'%[0-9A-Fa-f]{2}|[%"<>\[\]\\^`{|}]')
_SESSION_IN_PATH = re.compile(r";(?:jsessionid|sessionid|sid|phpsessid)=[^/;?]*", re.IGNORECASE)
_INDEX_FILE = re.compile(r"/(?:index|default)\.(?:html?|php|aspx?|jsp)$", re.IGNORECASE)
_SESSION_PARAMETERS = frozenset({"jsessionid", "phpsessid", "sessionid", "session_id", "cfid", "cftoken", "sid"})
_SESSION_PREFIXES = ("aspsessionid",)
_SESSION_VALUE = re.compile(r"[0-9A-Za-z]{16,}")
_TRACKING_PARAMETERS = frozenset({"fbclid", "gclid", "dclid", "msclkid", "mc_cid", "mc_eid", "igshid", "yclid"})
_TRACKING_PREFIXES = ("utm_",)


def _tidy_escape(match: re.Match[str]) -> str:
    text = match.group()
    if len(text) == 1:
        return f"%{ord(text):02X}"
    octet = int(text[1:], 16)
    return chr(octet) if octet in _UNRESERVED else text.upper()


def _escapes(text: str) -> str:
    """Normalise escapes: `%66` is `f`, `%c3` is `%C3`, a lone `%` is `%25`; signs no URL may hold are escaped."""
    return _UNTIDY.sub(_tidy_escape, text)


def _drop_parameters(query: str, unwanted: Callable[[str, str], bool]) -> str:
    if not query:
        return query
    parameters = query.split("&")
    kept = [p for p in parameters if not unwanted(*_name_and_value(p))]
    return query if len(kept) == len(parameters) else "&".join(kept)


def _name_and_value(parameter: str) -> tuple[str, str]:
    name, _, value = parameter.partition("=")
    return name.lower(), value


def _is_session(name: str, value: str) -> bool:
    """Tell whether a parameter is a session id: `sid` has other uses too, so its value must look like a token."""
    if name == "sid":
        return _SESSION_VALUE.fullmatch(value) is not None
    return name in _SESSION_PARAMETERS or name.startswith(_SESSION_PREFIXES)


def _is_tracking(name: str, _value: str) -> bool:
    return name in _TRACKING_PARAMETERS or name.startswith(_TRACKING_PREFIXES)


def _without_empty_parameters(query: str) -> str:
    """Remove empty parameters; only a lone `=` at the end goes: that of `token=YQ==` belongs to the value."""
    kept = [p for p in query.split("&") if p and not p.startswith("=")]
    return "&".join(p[:-1] if p.find("=") == len(p) - 1 else p for p in kept)


@dataclass(frozen=True, slots=True)
class CanonicalRule:
    """One step towards the canonical form: a function over the path, the query or both."""

    name: str
    description: str
    path: Callable[[str], str] | None = None
    query: Callable[[str], str] | None = None


RULES: dict[str, CanonicalRule] = {
    rule.name: rule
    for rule in (
        CanonicalRule("escapes", "normalize percent escapes (RFC 3986, 6.2.2)", _escapes, _escapes),
        CanonicalRule(
            "sessions",
            "remove session identifiers from path and query",
            lambda path: _SESSION_IN_PATH.sub("", path),
            lambda query: _drop_parameters(query, _is_session),
        ),
        CanonicalRule(
            "tracking",
            "remove campaign and click parameters",
            query=lambda query: _drop_parameters(query, _is_tracking),
        ),
        CanonicalRule("slashes", "collapse repeated slashes in the path", lambda path: re.sub(r"/{2,}", "/", path)),
        CanonicalRule(
            "index-file", "replace index.html and the like by the folder", lambda path: _INDEX_FILE.sub("/", path)
        ),
        CanonicalRule(
            "empty-parameters", "remove the `=` of parameters without a value", query=_without_empty_parameters
        ),
        CanonicalRule("sorted-query", "sort parameters", query=lambda query: "&".join(sorted(query.split("&")))),
    )
}
DEFAULT_RULES: tuple[str, ...] = ("escapes", "sessions", "tracking")

_VISITOR_NAMES = "|".join(
    sorted({*_SESSION_PARAMETERS, *_SESSION_PREFIXES, *_TRACKING_PARAMETERS, *_TRACKING_PREFIXES})
)
NAMES_VISITOR = re.compile(rf"[?&](?i:{_VISITOR_NAMES})")
"""Found in every query from which the default rules might take something; also in some from which they do not."""

_CHANGES_SOMETHING = re.compile(rf'[%"<>\[\]\\^`{{|}};]|\?\Z|{NAMES_VISITOR.pattern}')
"""A path and query with none of these is left alone by the default rules; most links on the web are."""


def _apply(rules: Sequence[str], path: str, query: str) -> str:
    # In the order of RULES, not of `rules`: two lists with the same names give the same form.
    for name, rule in RULES.items():
        if name not in rules:
            continue
        if rule.path is not None:
            path = rule.path(path)
        if query and rule.query is not None:
            query = rule.query(query)
    return f"{path}?{query}" if query else path


def canonicalize(url: str, rules: Sequence[str] = DEFAULT_RULES) -> str | None:
    """Return the canonical form of an absolute URL, or None if it is not one we could crawl."""
    if len(url) > MAX_REFERENCE_CHARS:
        return None
    try:
        return _canonical(ada_url.normalize_url(url), rules)
    except (ValueError, UnicodeError):
        return None


def resolve(reference: str, base: str, rules: Sequence[str] = DEFAULT_RULES) -> str | None:
    """Return the canonical form of a reference found in a document whose base is `base`, or None."""
    if len(reference) > MAX_REFERENCE_CHARS:
        return None
    try:
        return _canonical(ada_url.join_url(base, reference), rules)
    except (ValueError, UnicodeError):
        return None


def _canonical(href: str, rules: Sequence[str]) -> str | None:
    """Convert ada's form (absolute, lower-case host, dots resolved) to ours.

    Without rules it stays WHATWG's form, without the parts that no request has: user info, fragment, an empty query.
    """
    scheme, separator, rest = href.partition("://")
    if not separator or scheme not in DEFAULT_PORTS:
        return None
    href_without_fragment = rest.partition("#")[0]
    # WHATWG gives every http URL a path, so there is always a slash.
    slash = href_without_fragment.index("/")
    authority = href_without_fragment[:slash].rpartition("@")[2]
    target = href_without_fragment[slash:]
    # Only needed for the trailing dot below, which an IPv6 address in brackets never has.
    host, _, port = authority.partition(":") if not authority.startswith("[") else (authority, "", "")
    if host.endswith(".") and rules:
        # Parsed again, because `0x7f.1..` is a name and `0x7f.1` an address.
        bare = host.rstrip(".")
        return _canonical(ada_url.normalize_url(f"{scheme}://{bare}:{port}{target}"), rules) if bare else None
    if rules == DEFAULT_RULES and not _CHANGES_SOMETHING.search(target):
        return _bounded(f"{scheme}://{authority}{target}")
    return _settled(f"{scheme}://{authority}", target, rules)


def _settled(origin: str, target: str, rules: Sequence[str]) -> str | None:
    """Apply the rules until they change nothing: removing one thing (`/.;sid=1`) may uncover another (`/.`)."""
    for _ in range(MAX_PASSES):
        path, _, query = target.partition("?")
        changed = _apply(rules, path, query)
        if changed == target:
            return _bounded(origin + target)
        # Parsed again: a rule may have left a dot segment, or a character that WHATWG escapes.
        target = ada_url.normalize_url(origin + changed)[len(origin) :]
    return None


def _bounded(url: str) -> str | None:
    return url if len(url) <= MAX_REFERENCE_CHARS else None


_OTHER_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?![0-9]+(?:[/?#]|$))")
"""`mailto:` or `file:`, but not the name and port of `example.com:8080/`."""


def from_user(text: str) -> str | None:
    """Return the canonical form of a seed that a user typed: blanks around it and a missing `http://` are forgiven."""
    text = text.strip()
    canonical = canonicalize(text)
    # `/path`, `?query` and `#part` name no host, `mailto:x` has another scheme; the rest may be a host name.
    if canonical is None and not text.startswith(("/", "?", "#")) and not _OTHER_SCHEME.match(text):
        return canonicalize(f"http://{text}")
    return canonical


def split(url: str) -> Parts:
    """Take a *canonical* URL apart, by slicing alone."""
    scheme, _, rest = url.partition("://")
    slash = rest.index("/")
    authority, target = rest[:slash], rest[slash:]
    host, colon, port = authority.rpartition(":")
    # No colon at all, or only those inside the brackets of an IPv6 address.
    if not colon or authority.endswith("]"):
        return Parts(scheme, authority, DEFAULT_PORTS[scheme], target)
    return Parts(scheme, host, int(port), target)


def host_of(url: str) -> str:
    """Return the host of a *canonical* URL: `split(url).host` in half the time."""
    # A canonical URL has a slash after its host, at the earliest at 8: "http://a/".
    authority = url[url.index("//") + 2 : url.index("/", 8)]
    # The colons of an IPv6 address stand inside brackets.
    return authority.rpartition(":")[0] if ":" in authority and authority[-1] != "]" else authority


# ---- host, site, slot, cell -----------------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def _suffixes(is_encoded: bool) -> PublicSuffixList:
    """Return the public suffix list, read at its first use: parse children never use it.

    Rules in other scripts, encoded as in canonical hosts, are included only if a host is encoded: they are few, and
    encoding them takes as long as reading all the others.
    """
    lines = Path(PSLFILE).read_text("utf-8").split("\n")
    rules = [line for line in lines if line and not line.startswith("//")]
    ascii_rules = [rule for rule in rules if rule.isascii()]
    others = [rule.split()[0].encode("idna").decode() for rule in rules if not rule.isascii()] if is_encoded else []
    return PublicSuffixList(ascii_rules + others, accept_encoded_idn=False)


def is_address(host: str) -> bool:
    """Tell whether a canonical host is an address rather than a name."""
    # Most names end in a letter; an exception for each would take longer than all else that is done with it.
    if ":" not in host and not host[-1:].isdecimal():
        return False
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


@lru_cache(maxsize=65_536)
def site_of(host: str) -> str:
    """Return the registered domain of a host; addresses, single labels and bare public suffixes are their own site.

    WHATWG lets `a..example.org` be a host. It belongs to example.org, or a page could invent sites without end.
    """
    if is_address(host):
        return host
    name = host.rpartition("..")[2].removeprefix(".")
    return _suffixes("xn--" in name).privatesuffix(name) or name


@lru_cache(maxsize=65_536)
def slot_of(site: str) -> int:
    """Return the slot of a site: the leading ten bits of its SHA-1."""
    digest = hashlib.sha1(site.encode(), usedforsecurity=False).digest()
    # 16 bits shifted by 6 are the leading 10: SLOTS values.
    return int.from_bytes(digest[:2], "big") >> 6


def cell_starts(cells: int) -> tuple[int, ...]:
    """Return the first slot of each of `cells` equal ranges, in order."""
    if not 1 <= cells <= SLOTS:
        raise ValueError(f"cells must be between 1 and {SLOTS}, not {cells}")
    return tuple(cell * SLOTS // cells for cell in range(cells))


@lru_cache(maxsize=64)
def cell_table(starts: tuple[int, ...]) -> tuple[int, ...]:
    """Return the number of the cell that each slot belongs to, given the first slot of each cell by its number.

    A cell reaches to where the next one begins. One that was split off another has a number of its own, so the numbers
    need not be in the order of the slots.
    """
    order = sorted(range(len(starts)), key=starts.__getitem__)
    sorted_starts = [starts[number] for number in order]
    return tuple(order[bisect_right(sorted_starts, slot) - 1] for slot in range(SLOTS))


def cell_of(slot: int, starts: Sequence[int]) -> int:
    """Return the cell that a slot belongs to; see `cell_table`."""
    return cell_table(tuple(starts))[slot]


def cell_range(number: int, starts: Sequence[int]) -> tuple[int, int]:
    """Return a cell's first slot and the one after its last."""
    first = starts[number]
    return first, min((start for start in starts if start > first), default=SLOTS)


def host_to_cell(starts: Sequence[int]) -> Callable[[str], int]:
    """Return a function that maps a host to the number of its cell."""
    table = cell_table(tuple(starts))
    return lambda host: table[slot_of(site_of(host))]


def key_of(url: str) -> int:
    """Return the 64-bit identity of a canonical URL, signed so that SQLite can hold it."""
    key: int = xxhash.xxh3_64_intdigest(url.encode())
    return key - (1 << 64) if key >= 1 << 63 else key
