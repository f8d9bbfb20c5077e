"""Many rules at once: short forms for blocking, list files, and fast matching of thousands of names (A10).

A *word* is a short form that a user blocks or allows without thinking of rules:

    example.org                      that domain and all below it           -> domain:example.org
    example.org/private              URLs that begin so, http and https     -> prefix:http://… and prefix:https://…
    https://example.org/private/     URLs that begin so                     -> prefix:…
    @FILE                            the rules in a file                    -> list:FILE
    host:NAME, regex:EXPR …          a rule as it is

A list is a file with one word a line; `#` begins a comment. Lines of a hosts file (`0.0.0.0 ads.example.org`) are
understood as well, each name as `host:NAME`, because most public block lists are written so.

A `RuleTable` matches hosts, domains and prefixes together, in the time it takes to look at the labels of one name
and to search a sorted list, however many there are.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path

from teia.errors import ConfigError
from teia.urls import host_of

MAX_LIST_BYTES = 32 * 2**20
MAX_LIST_RULES = 250_000
"""Limit on the rules of a list: every parse child holds the table, within its 512 MiB."""

_KIND = re.compile(r"[a-z]+:(?!//)(?![0-9]+(?:/|$))|(?:and|or|not)\(")
"""Beginning of a rule: `host:`, `and(`; but neither `http://` nor the name and port of `example.org:8080`."""


# ---- words ----------------------------------------------------------------------------------------------------------


def rules_of_word(word: str) -> list[str]:
    """Return the rules a word stands for; `compile_scope` checks that they are valid."""
    word = word.strip()
    if word.startswith("@"):
        return [f"list:{word[1:].strip()}"]
    if _KIND.match(word):
        return [word]
    if word.lower().startswith(("http://", "https://")):
        return [f"prefix:{word}"]
    if "/" in word:
        return [f"prefix:http://{word}", f"prefix:https://{word}"]
    return [f"domain:{word}"]


def with_whole_path(rule: str, base: Path) -> str:
    """Return a rule in which a list has its absolute path; `@FILE` is `list:FILE`. Other rules are unchanged."""
    text = rules_of_word(rule)[0] if rule.strip().startswith("@") else rule.strip()
    if not text.startswith("list:"):
        return rule
    path = text.removeprefix("list:").strip()
    return f"list:{base / Path(path).expanduser()}" if path else text


def rules_of_line(line: str) -> list[str]:
    """Return the rules a line of a list stands for; none for a comment or an empty one."""
    # A `#` begins a comment at the start or behind a space only: URLs contain it too.
    text = (re.split(r"(?:^|\s)#", line, maxsplit=1)[0] if "#" in line else line).strip()
    if not text:
        return []
    first, *names = text.split()
    # A line of a hosts file: an address and names. Names without a dot, like `localhost`, are of the machine.
    if names and _is_nowhere(first):
        return [f"host:{name}" for name in names if "." in name and not _is_nowhere(name)]
    return rules_of_word(text)


def _is_nowhere(text: str) -> bool:
    """Tell whether a text is an address to which hosts files send blocked names."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return address.is_unspecified or address.is_loopback


def read_list(path: Path) -> tuple[str, ...]:
    """Return the rules of a list file. Bytes that are no UTF-8 make an invalid rule, which is reported."""
    rule = f"scope rule 'list:{path}'"
    try:
        with path.open("rb") as file:
            data = file.read(MAX_LIST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{rule}: cannot be read: {error.strerror}") from error
    if len(data) > MAX_LIST_BYTES:
        raise ConfigError(f"{rule}: larger than {MAX_LIST_BYTES >> 20} MiB")
    lines = data.decode("utf-8-sig", "replace").splitlines()
    rules = tuple(dict.fromkeys(rule for line in lines for rule in rules_of_line(line)))
    if len(rules) > MAX_LIST_RULES:
        raise ConfigError(f"{rule}: {len(rules):,} rules exceed the maximum of {MAX_LIST_RULES:,}")
    return rules


# ---- matching -------------------------------------------------------------------------------------------------------


class RuleTable:
    """Hosts, domains and URL prefixes, all canonical; called with a canonical URL, it tells whether one matches.

    No stored prefix begins with another one, so at most one can match a URL: the last that sorts before it.
    """

    def __init__(self, hosts: Iterable[str], domains: Iterable[str], prefixes: Iterable[str]) -> None:
        self._hosts = frozenset(hosts)
        self._domains = frozenset(domains)
        self._prefixes: list[str] = []
        for prefix in sorted(set(prefixes)):
            if not self._prefixes or not prefix.startswith(self._prefixes[-1]):
                self._prefixes.append(prefix)

    def __call__(self, url: str) -> bool:
        host = host_of(url)
        return host in self._hosts or self._has_domain(host) or self._has_prefix(url)

    def _has_domain(self, name: str) -> bool:
        while name and self._domains:
            if name in self._domains:
                return True
            name = name.partition(".")[2]
        return False

    def _has_prefix(self, url: str) -> bool:
        index = bisect_right(self._prefixes, url)
        return index > 0 and url.startswith(self._prefixes[index - 1])
