"""IndexNow pings: received by the server, proved by the crawler, weighed by the value of earlier pings.

`teia serve` receives a ping (`receive`). The crawler's commit thread checks whether the key file was visited since, and
holds the key (`prove_keys`), by the digest of the page in the frontier. The key file is fetched like any page, soon.
Its fetch adds no trust in pings, because any client can cause it. Proven URLs go into the inbox, and from there to the
frontier, unless the host's pings have proved to be worthless (`note_signal`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from teia.clock import Clock
from teia.crawler.ownership import HostOwners
from teia.frontier.cell import site_statements
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.schema import STATE_EXCLUDED, STATE_FAILED
from teia.frontier.tables.pages import find_page, find_url
from teia.signals.announce import Announcement, AnnouncementInbox, open_inbox
from teia.signals.indexnow import (
    CROWDED,
    FIRST,
    PATIENCE_S,
    PENDING,
    REFUSED,
    VERIFIED,
    IndexNowKey,
    IndexNowKeys,
    IndexNowPing,
    KeyPosition,
    is_proof,
)
from teia.signals.trust import SignalKind, SignalSource
from teia.sqlite import sqlite_errors, transaction
from teia.urls import key_of, site_of, slot_of, split

INDEXNOW, KEY_FILE, SOURCE = "indexnow", "indexnow-key", "source"
CHECKED_AT_ONCE = 100
"""Number of keys that are checked with one commit."""

KINDS = {INDEXNOW: SignalKind.INDEXNOW, "websub": SignalKind.WEBSUB, SOURCE: SignalKind.SOURCE}


def receive(path: Path, ping: IndexNowPing, clock: Clock) -> str:
    """Receive a ping for the collection with this inbox; return the state of its key."""
    with closing(open_inbox(path)) as inbox, sqlite_errors(path):
        IndexNowKeys(inbox.db).prepare()
        with transaction(inbox.db):
            inbox.count(INDEXNOW, {"received": len(ping.urls), "foreign": ping.refused})
            return receive_uncounted(inbox, ping, clock.now_s())


def receive_uncounted(inbox: AnnouncementInbox, ping: IndexNowPing, now_s: float) -> str:
    """Receive a ping into an open inbox that has the tables; another node may have counted it already."""
    keys = IndexNowKeys(inbox.db)
    state, counts = keys.state(ping, now_s), {}
    if state == VERIFIED:
        inbox.put(Announcement(url, INDEXNOW, ping.reported_s or now_s, now_s) for url in ping.urls)
    elif state == REFUSED:
        counts["forged"] = len(ping.urls)
    else:
        is_new = not state
        counts["dropped"] = len(ping.urls) - keys.queue(ping, now_s)
        state = keys.state(ping, now_s) or CROWDED
        # The first ping of a key makes its file due; later ones only wait for it.
        if is_new and state == PENDING:
            inbox.put([Announcement(ping.location, KEY_FILE, now_s, now_s)])
    inbox.count(INDEXNOW, counts)
    return state


def count_refused(path: Path, what: str) -> None:
    """Count a malformed message."""
    with closing(open_inbox(path)) as inbox, sqlite_errors(path):
        inbox.count(INDEXNOW, {what: 1})


# ---- the commit thread's side ---------------------------------------------------------------------------------------


def prove_keys(
    inbox: AnnouncementInbox,
    keys: IndexNowKeys,
    frontier_of: Callable[[str], FrontierCell],
    now_s: float,
    owners: HostOwners,
    after: KeyPosition = FIRST,
) -> KeyPosition:
    """Check whether the files of some keys were visited since they were queued; return the start of the next part."""
    requested = keys.pending_keys(CHECKED_AT_ONCE, after) if keys.has_tables else []
    ours = [key for key in requested if owners.is_here(key.host)]
    _forward_keys(inbox, keys, [key for key in requested if key not in ours], owners, now_s)
    for key in ours:
        is_proved = _is_proved(frontier_of(key.host), key)
        # Not visited yet: the key file has PATIENCE_S.
        if is_proved is None and now_s < key.since_s + PATIENCE_S:
            continue
        is_proved = bool(is_proved)
        with transaction(inbox.db):
            waited = keys.settle(key, is_proved=is_proved, now_s=now_s)
            if is_proved:
                inbox.put(Announcement(url, INDEXNOW, reported_s, now_s) for url, reported_s in waited)
            else:
                inbox.count(INDEXNOW, {"forged": len(waited)})
    # A full part continues behind its last key; otherwise the next check begins anew.
    return requested[-1][:3] if len(requested) == CHECKED_AT_ONCE else FIRST


def take_key_files(inbox: AnnouncementInbox, now_s: float, limit: int, owners: HostOwners) -> list[str]:
    """Take out due key files, and return those of this node; the keys of others are posted to their owners."""
    keys, due = IndexNowKeys(inbox.db), [(split(each.url).host, each.url) for each in inbox.due(KEY_FILE, now_s, limit)]
    ours, away = ([place for place in due if owners.is_here(place[0]) is is_ours] for is_ours in (True, False))
    _forward_keys(inbox, keys, [key for place in away for key in keys.pending_at(*place)], owners, now_s)
    for place in away:
        _forget_file(inbox, keys, *place)
    if ours:
        inbox.settle(KEY_FILE, [url for _, url in ours])
    return [url for _, url in ours]


def _forward_keys(
    inbox: AnnouncementInbox, keys: IndexNowKeys, those: Sequence[IndexNowKey], owners: HostOwners, now_s: float
) -> None:
    """Post keys to their owners; URLs that arrive for a key meanwhile are posted at the next check."""
    if not those:
        return
    sent = owners.forward_keys(inbox, INDEXNOW, those, now_s)
    with transaction(inbox.db):
        for key, urls in sent.items():
            keys.remove(key, urls)
            _forget_file(inbox, keys, key.host, key.location)


def _forget_file(inbox: AnnouncementInbox, keys: IndexNowKeys, host: str, location: str) -> None:
    """Cancel the visit of a key file, unless a known key should lie there: this node may become the host's owner."""
    with transaction(inbox.db):
        if not keys.pending_at(host, location):
            inbox.settle(KEY_FILE, [location])


def _is_proved(frontier: FrontierCell, key: IndexNowKey) -> bool | None:
    """Tell whether the file of a key holds it; None as long as it was not visited."""
    row_key = frontier.find_row_key(key.host, key_of(key.location))
    found = None if row_key is None else find_url(frontier, row_key)
    if row_key is None or found is None:
        return None
    page = find_page(frontier, row_key)
    if page is None or page.last_visit_s < key.since_s:
        # The file was given up without a visit: that refuses the key.
        return False if found.state in {STATE_EXCLUDED, STATE_FAILED} and page is None else None
    return page.status in {200, 304} and is_proof(key.key, page.digest)


def note_signal(frontier: FrontierCell, announced: Announcement, host: str) -> bool:
    """Note that a page is reported as changed; return False if such pings of its host have proved to be worthless."""
    slot = slot_of(site_of(host))
    host_id = frontier.find_host(host)
    if host_id is None:
        return True
    kind, key = KINDS[announced.kind], key_of(announced.url)
    reported_s = announced.reported_s
    site_statements.store_statements(frontier, slot, host_id, kind, 0, {key: reported_s}, reported_s)
    trust = SignalSource.decode(site_statements.trust_of(frontier, slot, host_id).get(kind, b""))
    return not trust.is_distrusted
