"""The country of an address, and its city where the file has it, without any request (A4).

Ranges of addresses with a place each, in the forms in which such data is published:

    200.128.0.0/9,BR                       a network; names are yours, so regions of your own will do
    200.133.0.0/16,BR/Pernambuco/Recife    the same with a city
    33554432,33554687,FR                   first and last as numbers, or written as addresses
    2001:200::,2001:200:ffff:ffff::,JP       (Debian's tor-geoipdb, DB-IP lite, IP2Location lite; quoted or not)
    1.0.0.0,1.0.0.255,OC,AU,Queensland,South Brisbane,…      DB-IP city lite
    16777216,16777471,US,United States,California,Los Angeles,…   IP2Location lite with cities
    lacnic|BR|ipv4|200.128.0.0|8388608|…   files that the registries of addresses (LACNIC, ARIN …) publish every day

A place is written COUNTRY/STATE/CITY, in capitals and without accents, as far as it is known.

Where ranges overlap the narrowest counts. Of an IPv6 address the first 64 bits count.
"""

from __future__ import annotations

import csv
import unicodedata
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path

from teia.durable import disk_errors
from teia.errors import ConfigError

WELL_KNOWN = (Path("/usr/share/tor/geoip"), Path("/usr/share/tor/geoip6"))
"""Files of Debian's tor-geoipdb; used if no file was named."""

_NOBODY = {"", "-", "??", "ZZ"}
_V6_SHIFT = 64

Range = tuple[int, int, str]
"""(first, last, name)."""


class Countries:
    """Index of address ranges, to find the name of an address; made by `read`."""

    def __init__(self, v4: Iterable[Range], v6: Iterable[Range]) -> None:
        self._names: list[str] = [""]
        self._numbers: dict[str, int] = {"": 0}
        self._v4 = self._laid_out(v4)
        self._v6 = self._laid_out(v6)

    def __len__(self) -> int:
        return len(self._v4[0]) + len(self._v6[0])

    @classmethod
    def read(cls, paths: Sequence[Path]) -> Countries:
        """Read files; ConfigError names a line that cannot be read."""
        ranges: dict[int, list[Range]] = {4: [], 6: []}
        for path in paths:
            with disk_errors(path, "read"), path.open(encoding="utf-8", errors="replace") as lines:
                for number, line in enumerate(lines, 1):
                    for version, found in _ranges_in(line.strip(), f"{path}, line {number}"):
                        ranges[version].append(found)
        if not ranges[4] and not ranges[6]:
            raise ConfigError(f"{', '.join(map(str, paths))}: contains no address ranges")
        return cls(ranges[4], ranges[6])

    def of(self, address: str) -> str:
        """Return the place of an address, as the module writes places; empty if no range contains it."""
        try:
            parsed = ip_address(address)
        except ValueError:
            return ""
        if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
            parsed = parsed.ipv4_mapped
        starts, names = self._v4 if isinstance(parsed, IPv4Address) else self._v6
        # The last stretch that begins at or before the address.
        at = bisect_right(starts, _place(parsed)) - 1
        return self._names[names[at]] if at >= 0 else ""

    def _laid_out(self, ranges: Iterable[Range]) -> tuple[array[int], array[int]]:
        """Return the beginning and name of each stretch with one name; a range inside another interrupts it."""
        starts, names = array("Q"), array("I")

        def begin(at: int, name: str) -> None:
            number = self._numbers.setdefault(name, len(self._names))
            if number == len(self._names):
                self._names.append(name)
            if starts and starts[-1] == at:
                names[-1] = number
            elif not names or names[-1] != number:
                starts.append(at)
                names.append(number)

        around: list[tuple[int, str]] = []
        # The wider one of two ranges comes first, and the narrower one interrupts it.
        for first, last, name in sorted(ranges, key=lambda each: (each[0], -each[1])):
            while around and around[-1][0] < first:
                end, _ = around.pop()
                # Behind its end the range around it continues.
                begin(end + 1, around[-1][1] if around and around[-1][0] > end else "")
            begin(first, name)
            around.append((last, name))
        while around:
            end, _ = around.pop()
            if end < (1 << 64) - 1:
                begin(end + 1, around[-1][1] if around and around[-1][0] > end else "")
        return starts, names


def open_countries(file: Path | None) -> Countries:
    """Open the named file, or Debian's; ConfigError with the remedy if there is none."""
    if file is not None:
        return Countries.read([file])
    there = [path for path in WELL_KNOWN if path.exists()]
    if not there:
        raise ConfigError(
            "--strategy geo needs a file with the countries of addresses; name one with --countries, or install"
            " tor-geoipdb (Debian)"
        )
    return Countries.read(there)


def _place(address: IPv4Address | IPv6Address) -> int:
    return int(address) if isinstance(address, IPv4Address) else int(address) >> _V6_SHIFT


def _ranges_in(line: str, where: str) -> Iterator[tuple[int, Range]]:
    """Yield (version of IP, range) of a line; comments and lines of other kinds have none."""
    if not line or line.startswith("#"):
        return
    try:
        fields = line.split("|") if "|" in line else [each.strip() for each in next(csv.reader([line]))]
        yield from _of_registry(fields) if "|" in line else _of_table(fields)
    except (ValueError, IndexError) as error:
        raise ConfigError(f"{where}: {line[:60]!r} is not an address range with a name ({error})") from error


def _of_registry(fields: Sequence[str]) -> Iterator[tuple[int, Range]]:
    if len(fields) < 5 or fields[2] not in {"ipv4", "ipv6"} or fields[3] == "*" or fields[1] in _NOBODY:
        return
    if fields[2] == "ipv4":
        first = int(IPv4Address(fields[3]))
        yield 4, (first, first + int(fields[4]) - 1, place_named(fields[1]))
    else:
        yield _of_network(f"{fields[3]}/{fields[4]}", fields[1])


def _of_table(fields: Sequence[str]) -> Iterator[tuple[int, Range]]:
    if "/" in fields[0]:
        yield _of_network(fields[0], fields[1])
        return
    first, last, named = _address(fields[0]), _address(fields[1]), fields[2:6]
    if len(named) == 4 and len(named[1]) == 2:
        # DB-IP puts the continent first; where IP2Location has the country's name, it has the country's two letters.
        named = named[1:]
    elif len(named) > 1:
        named = [named[0], *named[2:]]
    name = place_named("/".join(each.replace("/", " ") for each in named if each not in _NOBODY))
    if named[0] not in _NOBODY:
        yield first.version, (_place(first), _place(last), name)


def _of_network(text: str, name: str) -> tuple[int, Range]:
    network = ip_network(text)
    return network.version, (_place(network.network_address), _place(network.broadcast_address), place_named(name))


@lru_cache(maxsize=4096)
def place_named(text: str) -> str:
    """Return the name of a place in the form that is compared: capitals, no accents."""
    letters = (each for each in unicodedata.normalize("NFKD", text) if not unicodedata.combining(each))
    return "".join(letters).strip().upper()


def _address(text: str) -> IPv4Address | IPv6Address:
    return ip_address(int(text)) if text.isdigit() else ip_address(text)
