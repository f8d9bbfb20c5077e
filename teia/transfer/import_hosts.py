"""Import of host lists: the roots of a crawl from a list of names, a hosts file or a DNS zone (C9, T1).

The home page of each name is queued, as far as the collection's scope allows it. The names are recorded as a list, so
the coverage report can compare them with the hosts that links lead to.

    example.org                            a name a line; `#` and `;` begin comments
    192.0.2.1 www.example.org              a hosts file: an address and names
    $ORIGIN pt.                            a zone file (RFC 1035): owners of A, AAAA, CNAME and NS records;
    example  86400  IN  NS  ns.example     a zone of a registry has NS records, one delegation for each domain
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from ipaddress import ip_address
from itertools import islice
from pathlib import Path

from teia.crawler.commit import CommitGroup
from teia.durable import disk_errors
from teia.frontier.cell.rows import FoundUrl, tail_of
from teia.frontier.cell.schema import BY_LIST
from teia.transfer.import_data import ImportResult, Target
from teia.transfer.import_lists import BATCH
from teia.urls import MAX_REFERENCE_CHARS, from_user, key_of, split

_HOST_RECORDS = frozenset({"A", "AAAA", "CNAME", "NS"})
_RECORDS = _HOST_RECORDS | {"SOA", "MX", "TXT", "SRV", "DS", "DNSKEY", "RRSIG", "NSEC", "NSEC3", "CAA", "PTR", "NAPTR"}
_NO_CODE = re.compile(r'"(?:[^"\\]|\\.)*+"|[#;].*')
"""Texts between quotation marks, whose parentheses and semicolons mean nothing, and comments."""


def import_hosts(target: Target, files: Sequence[Path], done: ImportResult) -> None:
    """Queue the home pages of hosts. A repetition changes nothing, so no progress is stored."""
    for path in files:
        names = read_host_names(path, done)
        while batch := list(islice(names, BATCH)):
            homes = [url for name in batch if (url := _home_page(name)) is not None]
            done.refused += len(batch) - len(homes)
            done.urls_new += target.committer.commit(CommitGroup(seeds=[_found(url) for url in homes])).new_urls
            done.rows += len(batch)
        done.files += 1


def hosts_of_host_lists(files: Sequence[Path]) -> set[str]:
    ignored = ImportResult("")
    homes = (_home_page(name) for path in files for name in read_host_names(path, ignored))
    return {split(url).host for url in homes if url is not None}


def read_host_names(path: Path, done: ImportResult) -> Iterator[str]:
    """Yield the names of a file; other lines are counted as refused."""
    zone = _Zone()
    with disk_errors(path, "read"), path.open("rb") as file:
        number = 0
        # Bounded, so that a file without line ends does not fill the memory.
        while line := file.readline(2 * MAX_REFERENCE_CHARS):
            number += 1
            names = zone.names_of(line.decode("utf-8", "replace"))
            if names is None:
                done.refused += 1
                done.add_detail(f"{path} line {number}: names no host")
            else:
                yield from names


class _Zone:
    """The state of a file while it is read: the origin, the last owner, and whether parentheses are open."""

    def __init__(self) -> None:
        self._origin = ""
        self._owner = ""
        self._is_in_parentheses = False

    def names_of(self, line: str) -> list[str] | None:
        """Return the host names of a line, none for comments and other records; None for a line of another kind."""
        text = _NO_CODE.sub("", line)
        words = text.split()
        if self._is_in_parentheses or not words:
            self._is_in_parentheses &= ")" not in text
            return []
        self._is_in_parentheses = "(" in text and ")" not in text
        if words[0].startswith("$"):
            if words[0].upper() == "$ORIGIN" and len(words) > 1:
                self._origin = self._absolute(words[1])
            return []
        if len(words) == 1:
            return [words[0].rstrip(".")]
        if _is_address(words[0]):
            # Names without a dot, like `localhost`, are of the machine.
            return [name for name in words[1:] if "." in name]
        # A line that begins with a blank has the owner of the line before.
        is_continued = text[0].isspace()
        kind = next((word.upper() for word in words[0 if is_continued else 1 :] if word.upper() in _RECORDS), None)
        if kind is None:
            return None
        if not is_continued:
            self._owner = self._absolute(words[0])
        # An owner with `_` or `*` is no host.
        is_host = kind in _HOST_RECORDS and self._owner and not re.search(r"[_*]", self._owner)
        return [self._owner] if is_host else []

    def _absolute(self, name: str) -> str:
        if name == "@":
            return self._origin
        return name.rstrip(".") if name.endswith(".") or not self._origin else f"{name}.{self._origin}"


def _is_address(text: str) -> bool:
    with suppress(ValueError):
        ip_address(text)
        return True
    return False


def _home_page(name: str) -> str | None:
    return from_user(name) if "." in name and "/" not in name and ":" not in name else None


def _found(url: str) -> FoundUrl:
    host = split(url).host
    # No BY_SEED: a name of a zone that is out of scope is not fetched.
    return FoundUrl(host, key_of(url), tail_of(url, host), 0, 0, by=BY_LIST)
