"""Pings on their way: taken from the web, proved by the crawler, weighed by what earlier ones were worth.

`teia serve` takes a ping (`receive`). The crawler's commit thread looks whether the key file was visited since, and is
what it should be (`prove`), by the digest of the page in the frontier: it is fetched like any page, soon, and says
nothing of how far pings can be believed: anybody can make us fetch it. What is proved goes into the inbox, and from
there to the frontier, unless pings of the host have proved to be worth nothing (`is_heard`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from teia.clock import Clock
from teia.crawl.announced import open_inbox
from teia.crawl.passing import Elsewhere
from teia.frontier import sayings
from teia.frontier.cell import FrontierCell
from teia.frontier.database import open_database, sqlite_errors
from teia.frontier.schema import STATE_EXCLUDED, STATE_FAILED
from teia.signals import announce
from teia.signals.announce import Announcement, Inbox, transaction
from teia.signals.indexnow import ASKED, CROWDED, FIRST, PATIENCE_S, REFUSED, VERIFIED, Key, Keys, Ping, Place, proves
from teia.signals.trust import Kind, Voice
from teia.urls import key_of, site_of, slot_of, split

INDEXNOW, KEY_FILE = "indexnow", "indexnow-key"
LOOKED_AT = 100
"""Keys that are looked at with one commit."""

KINDS = {INDEXNOW: Kind.INDEXNOW, "websub": Kind.WEBSUB}


def receive(path: Path, ping: Ping, clock: Clock) -> str:
    """Take a ping for the collection whose inbox this is; returns the state of its key."""
    now_s = clock.now_s()
    db = open_database(path, announce.DDL, announce.VERSION, announce.PRAGMAS)
    inbox = Inbox(db)
    try:
        with sqlite_errors(path):
            keys = Keys(db)
            keys.prepare()
            with transaction(db):
                inbox.count(INDEXNOW, {"received": len(ping.urls), "foreign": ping.refused})
                return _receive(inbox, keys, ping, now_s)
    finally:
        inbox.close()


def _receive(inbox: Inbox, keys: Keys, ping: Ping, now_s: float) -> str:
    state, counts = keys.state(ping, now_s), {}
    if state == VERIFIED:
        inbox.put(Announcement(url, INDEXNOW, ping.said_s or now_s, now_s) for url in ping.urls)
    elif state == REFUSED:
        counts["forged"] = len(ping.urls)
    else:
        is_new = not state
        counts["dropped"] = len(ping.urls) - keys.wait(ping, now_s)
        state = keys.state(ping, now_s) or CROWDED
        if is_new and state == ASKED:
            inbox.put([Announcement(ping.location, KEY_FILE, now_s, now_s)])
    inbox.count(INDEXNOW, counts)
    return state


def count_refused(path: Path, what: str) -> None:
    """Count a message that made no sense."""
    inbox = open_inbox(path)
    try:
        with sqlite_errors(path):
            inbox.count(INDEXNOW, {what: 1})
    finally:
        inbox.close()


# ---- the commit thread's side ---------------------------------------------------------------------------------------


def receive_passed(inbox: Inbox, ping: Ping, now_s: float) -> None:
    """Take a ping that another node had taken and counted, into an inbox that is open and has the tables."""
    _receive(inbox, Keys(inbox.db), ping, now_s)


def prove(
    inbox: Inbox,
    keys: Keys,
    frontier_of: Callable[[str], FrontierCell],
    now_s: float,
    after: Place = FIRST,
    elsewhere: Elsewhere | None = None,
) -> Place:
    """Look at some keys, whether their files were visited since they were asked for; returns where to go on."""
    asked = keys.asked(LOOKED_AT, after) if keys.are_there else []
    ours = asked
    if elsewhere is not None:
        ours = [key for key in asked if elsewhere.is_here(key.host)]
        _pass_on(inbox, keys, [key for key in asked if key not in ours], elsewhere)
    for key in ours:
        is_proved = _is_proved(frontier_of(key.host), key)
        if is_proved is None and now_s < key.since_s + PATIENCE_S:
            continue
        is_proved = bool(is_proved)
        with transaction(inbox.db):
            waited = keys.settle(key, is_proved=is_proved, now_s=now_s)
            if is_proved:
                inbox.put(Announcement(url, INDEXNOW, said_s, now_s) for url, said_s in waited)
            else:
                inbox.count(INDEXNOW, {"forged": len(waited)})
    return asked[-1][:3] if len(asked) == LOOKED_AT else FIRST


def pass_files_on(inbox: Inbox, due: Sequence[Announcement], elsewhere: Elsewhere) -> list[Announcement]:
    """Of key files to be visited, send the keys of those that others have to look for; returns what is for us."""
    keys = Keys(inbox.db)
    away = [(split(each.url).host, each.url) for each in due if not elsewhere.is_here(split(each.url).host)]
    _pass_on(inbox, keys, [key for place in away for key in keys.asked_at(*place)], elsewhere)
    for place in away:
        _forget_file(inbox, keys, *place)
    return [each for each in due if elsewhere.is_here(split(each.url).host)]


def _pass_on(inbox: Inbox, keys: Keys, those: Sequence[Key], elsewhere: Elsewhere) -> None:
    """Send keys to their keepers. What others tell us with one while it is sent goes with the next look."""
    if not those:
        return
    sent = elsewhere.pass_keys_on(keys, those)
    with transaction(inbox.db):
        for key, urls in sent.items():
            keys.forget(key, urls)
            _forget_file(inbox, keys, key.host, key.location)
        inbox.count(INDEXNOW, {"passed_on": sum(map(len, sent.values()))})


def _forget_file(inbox: Inbox, keys: Keys, host: str, location: str) -> None:
    """Have a key file not visited by us, unless we still know a key that should lie there: its host may become ours."""
    with transaction(inbox.db):
        if not keys.asked_at(host, location):
            inbox.settle(KEY_FILE, [location])


def _is_proved(frontier: FrontierCell, key: Key) -> bool | None:
    """Whether the file of a key holds it; None as long as it was not visited."""
    row = frontier.db.execute("SELECT host_id FROM hosts WHERE name = ?", (key.host,)).fetchone()
    if row is None:
        return None
    place = (slot_of(site_of(key.host)), row[0], key_of(key.location))
    sql = """
        SELECT u.state, p.last_visit_s, p.status, p.digest
        FROM urls AS u LEFT JOIN pages AS p USING (slot, host_id, key)
        WHERE u.slot = ? AND u.host_id = ? AND u.key = ?
    """
    found = frontier.db.execute(sql, place).fetchone()
    if found is None:
        return None
    state, visited_s, status, digest = found
    if visited_s is None or visited_s < key.since_s:
        return False if state in {STATE_EXCLUDED, STATE_FAILED} and visited_s is None else None
    return status in {200, 304} and proves(key.key, digest)


def is_heard(frontier: FrontierCell, announced: Announcement, host: str) -> bool:
    """Note that a page is said to have changed; False if such pings of its host have proved to be worth nothing."""
    slot = slot_of(site_of(host))
    row = frontier.db.execute("SELECT host_id FROM hosts WHERE name = ?", (host,)).fetchone()
    if row is None:
        return True
    kind, key = KINDS[announced.kind], key_of(announced.url)
    sayings.take(frontier.db, slot, row[0], kind, 0, {key: announced.said_s}, announced.said_s)
    voice = Voice.decode(sayings.voices_of(frontier.db, slot, row[0]).get(kind, b""))
    return not voice.is_hardly_heard
