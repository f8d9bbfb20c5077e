"""Rules of robots.txt (RFC 9309). Pure: bytes and an outcome go in, rules come out.

This module selects the lines that apply to us; protego matches the patterns. The division has a reason: protego gives
every agent its own copy of every rule, and a file of 6,000 names and 6,000 rules (197 KiB) took it 50 s. Here the lines
for other crawlers are left out first, and protego sees one group. docs/decisions/0005-robots.md has the figures, and
the choices made where parsers disagree.

Rules are kept as `to_bytes`: a robots.txt of one group under a first line of ours,

    # teia-robots 1 read 1700000000.0         format, Access, time of the answer (Unix seconds)
    User-agent: *
    Disallow: /private
    Crawl-delay: 5.0
    Sitemap: https://example.org/sitemap.xml

They hold for the product token they were read with: change the token, and every robots.txt must be fetched again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from urllib.parse import quote

from protego import Protego

from teia.records import Outcome

LIMIT_BYTES = 500 * 1024
"""Size in bytes of a robots.txt that a crawler must read at least (RFC 9309, 2.5)."""

MAX_SITEMAPS = 500
MAX_WILDCARD_BYTES = 64 * 1024
"""Patterns with `*` or `$` are tried one by one, so a file with more of them than this is obeyed by staying away."""

MAX_LINES_TRIED = 500
"""Most lines tried, one by one, to find the line that decides about a URL, for display."""

MAX_DELAY_S = 10 * 365 * 86_400.0
"""Longest Crawl-delay in seconds: `1e99` means "leave me alone", but must stay a time that can be added to a clock."""

SHARED_LINES = 8
"""Rules of at most so many lines share one matcher with equal ones: most hosts have no robots.txt, or a common one."""

KEEP_COPY_S = 30 * 86_400.0
"""Seconds that a cached robots.txt stays valid while its server is unreachable (RFC 9309, 2.3.1.4)."""


class Access(StrEnum):
    """Meaning of the last answer to a request for robots.txt (RFC 9309, 2.3.1)."""

    READ = "read"
    """There is a file: its rules apply to us."""
    UNAVAILABLE = "unavailable"
    """The server says there is none: everything is allowed."""
    UNREACHABLE = "unreachable"
    """The server gave no answer: nothing is allowed."""


@dataclass(frozen=True, slots=True)
class RobotsRules:
    """Rules of one host for one crawler. `lines` are `Allow: …` and `Disallow: …`, in ASCII, already of our group."""

    access: Access
    lines: tuple[str, ...] = ()
    crawl_delay_s: float | None = None
    sitemaps: tuple[str, ...] = ()
    checked_s: float = 0.0
    _matcher: Protego = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        lines = ("Disallow: /",) if self.unreachable else self.lines
        matcher = _shared_matcher(lines) if len(lines) <= SHARED_LINES else _make_matcher(lines)
        object.__setattr__(self, "_matcher", matcher)

    @property
    def unreachable(self) -> bool:
        return self.access is Access.UNREACHABLE

    def allows(self, url: str) -> bool:
        """Tell whether a *canonical* URL of this host may be fetched; /robots.txt always may (RFC 9309, 2.2.2)."""
        if not self.lines and not self.unreachable:
            return True  # most hosts have no robots.txt
        # Only path and query are compared. The host is left out because urllib, which protego uses, is no judge of it.
        target = _escaped(url[url.index("/", len("https://")) :])
        return self._matcher.can_fetch(f"http://h{target}", "*")

    def line_for(self, url: str) -> str:
        """Return the line that decides about a URL: the longest match, `Allow` before `Disallow`; else empty."""
        found = [
            (len(pattern.strip()), kind.strip().lower() == "allow", line)
            for line in self.lines[:MAX_LINES_TRIED]
            for kind, _, pattern in [line.partition(":")]
            # Each line is tried alone as a Disallow: refused means that its pattern matches, whatever its verb.
            if pattern.strip() and not RobotsRules(Access.READ, (f"Disallow: {pattern.strip()}",)).allows(url)
        ]
        return max(found)[2] if found else ""

    def to_bytes(self) -> bytes:
        """Return the rules as they are stored; `from_bytes` reads them back."""
        head = f"# teia-robots 1 {self.access} {self.checked_s!r}"
        delay = () if self.crawl_delay_s is None else (f"Crawl-delay: {self.crawl_delay_s!r}",)
        sitemaps = (f"Sitemap: {url}" for url in self.sitemaps)
        return "\n".join((head, "User-agent: *", *self.lines, *delay, *sitemaps, "")).encode()

    @classmethod
    def from_bytes(cls, stored: bytes) -> RobotsRules:
        """Read what `to_bytes` wrote. ValueError if it is something else."""
        head, _, _ = stored.partition(b"\n")
        fields = head.decode().split(" ")
        if len(fields) != 5 or fields[:3] != ["#", "teia-robots", "1"]:
            raise ValueError(f"not stored robots rules: {head[:80]!r}")
        rules = parse_robots(stored, "*", limit_bytes=len(stored), checked_s=float(fields[4]))
        access = Access(fields[3])
        return rules if access is rules.access else replace(rules, access=access)


def _make_matcher(lines: tuple[str, ...]) -> Protego:
    return Protego.parse("\n".join(("User-agent: *", *lines)))


_shared_matcher = lru_cache(maxsize=256)(_make_matcher)

# ---- the file -------------------------------------------------------------------------------------------------------

_BOM = re.compile(r"\A(?:\ufeff|\udcef\udcbb?)")
"""A byte order mark, whole or as a careless editor left it."""

_LINE_END = re.compile(r"\r\n|\r|\n")
_FIELD = re.compile(
    r"(?:(?P<agent>user[- ]?agent)|(?P<allow>allow)|(?P<disallow>d[ei]s{1,2}al{1,2}[oa]w|diasllow)"
    r"|(?P<delay>crawl[- ]delay)|(?P<sitemap>sitemaps?|site-map))(?:\s*:|\s+|$)",
    re.IGNORECASE,
)
"""Fields as people spell them. Every other line is passed over, and ends no group (RFC 9309, 2.2.4)."""

_TOKEN = re.compile(r"\*(?=\s|$)|[A-Za-z0-9_-]+")
_NUMBER = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][0-9]+)?")
_NOT_PLAIN = re.compile(r"[^\x21-\x7e]+")
_NOT_UTF8 = re.compile(r"[\udc80-\udcff]")
_LONE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")


def parse_robots(body: bytes, agent: str, limit_bytes: int = LIMIT_BYTES, checked_s: float = 0.0) -> RobotsRules:
    """Parse the rules for the product token `agent` from a body without content codings; any content is accepted."""
    group = _Group(agent)
    for line in _LINE_END.split(_text(body, limit_bytes)):
        group.read(line.partition("#")[0].strip())
    lines = group.lines()
    if sum(len(line) for line in lines if "*" in line or "$" in line) > MAX_WILDCARD_BYTES:
        # See MAX_WILDCARD_BYTES. Refusing all is the safe side: the crawler may not fetch what the owner forbade.
        lines = ("Disallow: /",)
    return RobotsRules(Access.READ, lines, group.delay_s(), tuple(group.sitemaps), checked_s)


def _text(body: bytes, limit_bytes: int) -> str:
    """Decode up to the limit, whole lines only; bytes that are not UTF-8 survive as lone surrogates."""
    head = body[:limit_bytes]
    # Windows editors save "Unicode" as UTF-16; the RFC wants UTF-8.
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = head.decode("utf-16", "replace")
    else:
        text = _BOM.sub("", head.decode("utf-8", "surrogateescape"))
    if len(body) <= limit_bytes:
        return text
    # A line cut by the limit could allow or forbid more than the whole line does.
    return text[: max(text.rfind("\n"), text.rfind("\r")) + 1]


class _Group:
    """Collects the lines of the groups that name one agent, and of those that name `*` in case none does.

    A run of names opens a group and the first rule closes the run. A Crawl-delay closes no group, for it is no part of
    the protocol; it belongs to the names just above it, or the delay meant for one crawler would reach its neighbours.
    """

    def __init__(self, agent: str) -> None:
        self.sitemaps: list[str] = []
        self._agent = agent.lower()
        self._rules: dict[str, list[str]] = {self._agent: [], "*": []}
        self._delays_s: dict[str, list[float]] = {self._agent: [], "*": []}
        self._agent_is_named = False
        self._names: set[str] = set()
        self._delay_names: set[str] = set()
        self._names_end = self._delay_names_end = False

    def read(self, line: str) -> None:
        """Take one line, without comment and blanks around it."""
        found = _FIELD.match(line)
        if found is None:
            return
        kind, value = found.lastgroup, line[found.end() :].strip()
        if kind == "agent":
            self._name(value)
        elif kind == "delay":
            self._delay(value)
        elif kind == "sitemap":
            self._sitemap(value)
        else:
            self._rule("Allow" if kind == "allow" else "Disallow", value)

    def lines(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._rules[self._binding()]))

    def delay_s(self) -> float | None:
        """Return the longest Crawl-delay that applies to us: a Crawl-delay is never shortened."""
        return max(self._delays_s[self._binding()], default=None)

    def _binding(self) -> str:
        return self._agent if self._agent_is_named else "*"

    def _name(self, value: str) -> None:
        if self._names_end:
            self._names = set()
        if self._names_end or self._delay_names_end:
            self._delay_names = set()
        self._names_end = self._delay_names_end = False
        token = _TOKEN.match(value)
        name = token.group().lower() if token else ""
        if name in self._rules:
            self._names.add(name)
            self._delay_names.add(name)
            self._agent_is_named |= name == self._agent

    def _rule(self, verb: str, value: str) -> None:
        self._names_end = True
        for pattern in _spellings(value):
            for name in self._names:
                self._rules[name].append(f"{verb}: {pattern}")

    def _delay(self, value: str) -> None:
        self._delay_names_end = True
        number = _NUMBER.match(value)
        if number is None:
            return
        for name in self._delay_names:
            self._delays_s[name].append(min(float(number.group()), MAX_DELAY_S))

    def _sitemap(self, value: str) -> None:
        if len(self.sitemaps) < MAX_SITEMAPS and value and value.isprintable():
            self.sitemaps.append(value)


def _spellings(value: str) -> Iterator[str]:
    """Yield a pattern in ASCII. One that is not UTF-8 binds as its bytes and as the Latin-1 it probably is."""
    if value:
        yield _escaped(value)
    if _NOT_UTF8.search(value):
        yield _escaped(value.encode("utf-8", "surrogateescape").decode("latin-1"))


def _escaped(text: str) -> str:
    """Return the text in printable ASCII, with `%25` for a `%` that escapes nothing, as in a canonical URL."""
    plain = _NOT_PLAIN.sub(lambda match: quote(match.group().encode("utf-8", "surrogateescape"), safe=""), text)
    return _LONE_PERCENT.sub("%25", plain) if "%" in plain else plain


# ---- the answer -----------------------------------------------------------------------------------------------------


def rules_from_answer(
    outcome: str,
    status: int,
    body: bytes,
    agent: str,
    previous: RobotsRules | None = None,
    now_s: float = 0.0,
    limit_bytes: int = LIMIT_BYTES,
    keep_copy_s: float = KEEP_COPY_S,
) -> RobotsRules:
    """Return the rules after a request for robots.txt. `outcome` is an Outcome or the status as text.

    The caller follows five redirects, to other hosts too, and then passes the redirect itself: a sixth is "unavailable"
    (2.3.1.2), like any 4xx but 429. Any other failure, 429 included, is "unreachable": nothing may be fetched, unless
    there is a copy of an earlier file that is not too old. A copy that is kept keeps its `checked_s`.
    """
    # A file cut at the size limit still binds (RFC 9309, 2.5); one cut by a time-out does not.
    answered = outcome in {str(status), Outcome.GONE, Outcome.TOO_LARGE, Outcome.REDIRECT_LOOP}
    if answered and 200 <= status < 300:
        return parse_robots(body, agent, limit_bytes, now_s)
    copy = previous if previous is not None and previous.access is Access.READ else None
    if answered and status == 304 and copy is not None:
        return replace(copy, checked_s=now_s)
    # 429 is excluded: a server that limits the rate does not state that it has no robots.txt.
    if answered and 300 <= status < 500 and status not in {304, 429}:
        return RobotsRules(Access.UNAVAILABLE, checked_s=now_s)
    if copy is not None and now_s - copy.checked_s <= keep_copy_s:
        return copy
    return RobotsRules(Access.UNREACHABLE, checked_s=now_s)
