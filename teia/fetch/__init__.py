"""Fetching: everything that opens a socket towards the web.

Input is a URL to fetch now; output is one `Fetched`, also after any failure. On the way:

    destination.py  address of a host, by `--resolve` or a name server         begin here
        dns.py          the real resolver: a name server behind a cache
        cares.py        one name server, queried through c-ares
        guard.py        the only decision whether an address and port may be connected to
    fetcher.py      the seam: `FetchRequest`, `Fetcher.start(request, done)`
    curl.py         the real one: libcurl, pinned to the guarded address and watched
        driver.py       libcurl's sockets and timers on the event loop
        wire.py         the requests sent: heads and pins
        answer.py       the answer received: counted, bounded, its framing judged
        keep_alive.py   servers that may keep a connection open, and which of these are still open
        outcome.py      tables from a transfer's end to its outcome
    robots.py       rules of a host's robots.txt; pure, opens nothing

Invariants: the address that was checked is the address that is connected to, also on a kept connection; one `start` is
at most one request on the wire; redirects are answers; no byte is kept that was not counted first. Bodies stay as they
were sent, compressed and chunked; parse children undo both. Reasons and figures: docs/decisions/0006-fetch.md.
"""
