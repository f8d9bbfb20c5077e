"""Names that may be one site, as a cell stores them (A7): candidate pairs, evidence, decisions.

    samples  some pages of every host, as numbers: the first host at a site, or at an address, that serves a page at
             a path owns the sample. A second host that serves the same page there is worth watching.
    aliases  pairs of names: watched, with the evidence of their pages; one an alias of the other; or distinct, which
             is recorded so that the pair is not examined again

A pair is stored with the host that was found later, an alias with the host that is one. The other host may belong
to another cell. This module decides nothing; crawler/sites/aliases.py does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from teia.errors import CorruptFile
from teia.frontier.cell import revisits
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.connection import CellConnection
from teia.frontier.cell.rows import url_from
from teia.frontier.cell.schema import LANE_DUE, STATE_EXCLUDED, STATE_QUEUED
from teia.frontier.tables import hosts, pages
from teia.lib.undecodable import UNDECODABLE
from teia.records import Outcome
from teia.urls import key_of, site_of, slot_of

WATCHED, ALIAS, DISTINCT, RETURNING = range(4)
"""States of a pair. RETURNING: an alias that turned out to be distinct, while its URLs return to the queue."""


class AliasEvidence(msgspec.Struct, array_like=True):
    """Evidence about two names so far, by the hash of their pages' paths.

    `equal` are the pages that are the same, each with a number for its content; `different` those that are not,
    with the home page counted twice; `redirects` those at which `redirecting` redirects to the same path of the
    other name, at `origin`. `tails` are some of the equal ones, to be checked again. `named`: number of equal pages
    that declare the pair's host canonical, minus those that declare the other.
    """

    equal: dict[int, int] = {}
    different: list[int] = []
    redirects: list[int] = []
    redirecting: str = ""
    origin: str = ""
    tails: list[str] = []
    named: int = 0


@dataclass(slots=True, eq=False)
class AliasPair:
    """Two names. Once `state` is ALIAS, `host` is another name of `other`.

    `checked_s` is the last time they were seen to agree; `checking_s` the start of a check under way, or 0.
    """

    host: str
    other: str
    since_s: float
    state: int = WATCHED
    checked_s: float = 0.0
    checking_s: float = 0.0
    evidence: AliasEvidence = field(default_factory=AliasEvidence)

    def other_than(self, host: str) -> str:
        """Return the other name of the pair."""
        return self.other if host == self.host else self.host


@dataclass(frozen=True, slots=True)
class ComparedVisit:
    """The last visit of a page, for the comparison of two names. `text` is the digest of its text, or of its bytes."""

    url: str
    status: int
    text: bytes
    simhash: int
    title: str
    canonical: str
    redirect_to: str
    media_type: str
    time_s: float


@dataclass(frozen=True, slots=True)
class HostActivity:
    """Activity of a host: requests so far, its last address, links to its home page."""

    requests: int
    address: str
    in_links: int


# ---- pairs ----------------------------------------------------------------------------------------------------------

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(AliasEvidence).decode


def open_pairs(cell: FrontierCell) -> Iterator[AliasPair]:
    """Yield the pairs of a cell that still need work."""
    return _pairs_where(cell, "a.state <> ?", DISTINCT)


def _pairs_where(cell: FrontierCell, condition: str, *values: int | str) -> Iterator[AliasPair]:
    sql = f"""
        SELECT h.name, a.other, a.since_s, a.state, a.checked_s, a.checking_s, a.evidence
        FROM hosts AS h JOIN aliases AS a ON a.slot = h.slot AND a.host_id = h.host_id
        WHERE {condition} ORDER BY a.since_s
    """  # noqa: S608  # our own text
    rows = cell.db.execute(sql, values).fetchall()
    for host, other, since_s, state, checked_s, checking_s, evidence in rows:
        try:
            yield AliasPair(host, other, since_s, state, checked_s, checking_s, _decode(evidence))
        except UNDECODABLE as error:
            raise CorruptFile(cell.path, f"evidence of {host} cannot be read: {error}") from error


def alias_row(cell: FrontierCell, host: str) -> AliasPair | None:
    """Return the pair of a host that is an alias; None for another host."""
    return next((pair for pair in _pairs_where(cell, "a.state = ? AND h.name = ?", ALIAS, host)), None)


def pair_names(cell: CellConnection) -> list[tuple[str, str, int]]:
    """Return (host, other name, state) of every pair."""
    sql = "SELECT h.name, a.other, a.state FROM aliases AS a JOIN hosts AS h USING (slot, host_id)"
    return list(cell.rows(sql))


def alias_names(cell: CellConnection, main: str, limit: int) -> list[str]:
    """Return hosts that are aliases of a main name."""
    sql = """
        SELECT h.name FROM aliases AS a JOIN hosts AS h ON h.host_id = a.host_id
        WHERE a.slot = ? AND a.other = ? AND a.state = ? LIMIT ?
    """
    return [name for (name,) in cell.rows(sql, slot_of(site_of(main)), main, ALIAS, limit)]


def url_at_main(pair: AliasPair, main: str, tail: str) -> str:
    """Return the main name's URL for an alias URL: the same path, at the origin it redirects to, if any."""
    origin = pair.evidence.origin
    # `origin` was learnt from redirects to `pair.other`; it says nothing about another main name.
    return origin + tail[tail.index("/") :] if origin and main == pair.other else url_from(main, tail)


def pair_state(cell: FrontierCell, host: str, other: str) -> int | None:
    """Return the state of a pair that is stored with `host`; None if it is unknown."""
    sql = """
        SELECT a.state FROM aliases AS a JOIN hosts AS h ON h.slot = a.slot AND h.host_id = a.host_id
        WHERE h.name = ? AND a.other = ?
    """
    row = cell.db.execute(sql, (host, other)).fetchone()
    return None if row is None else int(row[0])


def save_pair(cell: FrontierCell, pair: AliasPair, now_s: float) -> None:
    """Store a pair; inside a transaction. The evidence of a distinct pair is dropped."""
    evidence = AliasEvidence() if pair.state == DISTINCT else pair.evidence
    row_key = (slot_of(site_of(pair.host)), cell.host_id(pair.host, now_s), pair.other)
    times = (pair.since_s, pair.checked_s, pair.checking_s)
    cell.db.execute(
        "INSERT OR REPLACE INTO aliases VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (*row_key, pair.state, *times, _encode(evidence)),
    )


def drop_pair(cell: FrontierCell, host: str, other: str, now_s: float) -> None:
    """Delete a pair; inside a transaction."""
    sql = "DELETE FROM aliases WHERE slot = ? AND host_id = ? AND other = ?"
    cell.db.execute(sql, (slot_of(site_of(host)), cell.host_id(host, now_s), other))


# ---- samples --------------------------------------------------------------------------------------------------------


def sample_owner(cell: FrontierCell, slot: int, sample: int) -> str | None:
    """Return the first host that served a sample; None if there is none."""
    row = cell.db.execute("SELECT host FROM samples WHERE slot = ? AND sample = ?", (slot, sample)).fetchone()
    return None if row is None else str(row[0])


def store_samples(cell: FrontierCell, samples: Iterable[tuple[int, int, str]]) -> None:
    """Store (slot, sample, host) of samples that have no host yet; inside a transaction."""
    cell.db.executemany("INSERT OR IGNORE INTO samples VALUES (?, ?, ?)", samples)


# ---- hosts and pages ------------------------------------------------------------------------------------------------


def host_activity(cell: FrontierCell, host: str, home: str) -> HostActivity | None:
    """Return the counts of a host; None for an unknown one. `home` is the tail of its home page."""
    host_id = cell.find_host(host)
    row = None if host_id is None else hosts.find(cell, host_id)
    if row is None:
        return None
    linked = pages.find_url_at(cell, host, key_of(url_from(host, home)))
    return HostActivity(row.requests, row.address, linked.in_links if linked else 0)


def last_visit(cell: FrontierCell, host: str, tail: str) -> ComparedVisit | None:
    """Return the last visit of a page; None if it was never visited."""
    url = url_from(host, tail)
    row_key = cell.find_row_key(host, key_of(url))
    page = None if row_key is None else pages.find_page(cell, row_key)
    if page is None:
        return None
    # SQLite stores the simhash as a signed number; the comparison counts bits of the unsigned one.
    text, simhash = page.text_digest or page.digest, page.simhash & ((1 << 64) - 1)
    described = (page.title, page.canonical, page.redirect_to, page.media_type, page.last_visit_s)
    return ComparedVisit(url, page.status, text, simhash, *described)


def robots_texts(cell: FrontierCell, host: str) -> dict[str, bytes]:
    """Return a host's robots.txt by scheme and port, with its own name blanked out; empty bytes for a missing one.

    A robots.txt that could not be fetched is left out.
    """
    host_id = cell.find_host(host)
    texts: dict[str, bytes] = {}
    for origin, _, _, status, body in cell.robots_of(host_id, host) if host_id else ():
        # A 4xx means that there are no rules. 429 and 5xx say nothing about the rules, so they are left out.
        if 200 <= status < 500 and status != 429:
            texts[origin.replace(host, "*", 1)] = body.replace(host.encode(), b"*") if status < 300 else b""
    return texts


def visited_tails(cell: FrontierCell, host: str, limit: int) -> list[str]:
    """Return the tails of visited pages of a host."""
    sql = """
        SELECT u.tail FROM hosts AS h
        JOIN pages AS p ON p.slot = h.slot AND p.host_id = h.host_id
        JOIN urls AS u ON u.slot = p.slot AND u.host_id = p.host_id AND u.key = p.key
        WHERE h.name = ? LIMIT ?
    """
    return [tail for (tail,) in cell.db.execute(sql, (host, limit))]


def url_state(cell: FrontierCell, host: str, tail: str) -> int | None:
    """Return the state of a URL; None if it is unknown."""
    known = pages.find_url_at(cell, host, key_of(url_from(host, tail)))
    return None if known is None else known.state


# ---- URLs of an alias -----------------------------------------------------------------------------------------------


def requeue_first(cell: FrontierCell, host: str, tail: str, now_s: float) -> int | None:
    """Put a visited or excluded page at the head of its host's queue; return its key, None if unknown.

    Inside a transaction.
    """
    row_key = cell.find_row_key(host, key_of(url_from(host, tail)))
    known = None if row_key is None else pages.find_url(cell, row_key)
    if row_key is None or known is None:
        return None
    if known.state != STATE_QUEUED:
        slot, host_id, key = row_key
        rank = int(now_s * 1000)
        # A page of the REFRESH lane has a row in `queue` already; a second row would fetch it twice.
        revisits.withdraw(cell, row_key)
        cell.db.execute("INSERT INTO queue VALUES (?, ?, ?, ?, ?)", (slot, host_id, LANE_DUE, rank, key))
        cell.db.execute(
            "UPDATE urls SET state = ?, failures = 0, lane = ?, rank = ? WHERE slot = ? AND host_id = ? AND key = ?",
            (STATE_QUEUED, LANE_DUE, rank, *row_key),
        )
        cell.queued += 1
    return row_key[2]


def requeue_alias_urls(cell: FrontierCell, host: str, limit: int, now_s: float) -> int:
    """Queue the URLs that were left to another name again, at their old places; return their number.

    Inside a transaction. There may be a million, so a call handles at most `limit`.
    """
    slot, host_id = slot_of(site_of(host)), cell.host_id(host, now_s)
    sql = "SELECT lane, rank, key FROM urls WHERE slot = ? AND host_id = ? AND state = ? AND outcome = ? LIMIT ?"
    left_out = (slot, host_id, STATE_EXCLUDED, Outcome.ALIAS, limit)
    rows = cell.db.execute(sql, left_out).fetchall()
    # `lane` and `rank` stayed in `urls` all the while, so the row of the queue can be made again.
    for lane, rank, key in rows:
        cell.requeue(slot, host_id, key, lane=lane, rank=rank)
    return len(rows)
