"""Fetching: everything that opens a socket towards the web.

In comes a URL whose turn it is; out comes one `Fetched`, whatever happened. On the way:

    destination.py  where a host is reached: `Destinations.known` / `find`        begin here
        overrides.py    the operator's own table of names (`--resolve`)
        dns.py          names to addresses: the `Resolver` seam, c-ares with a memory
        guard.py        may this address and port be connected to? the only place that decides
    fetcher.py      the seam: `FetchRequest`, `Fetcher.start(request, done)`
    curl.py         the real one: libcurl, pinned to the guarded address and watched
        driver.py       libcurl's sockets and timers on the event loop
        wire.py         what is sent: heads and pins
        answer.py       what arrives: counted, bounded, its framing judged
        places.py       who may keep a connection open
        outcome.py      how a transfer's end becomes an outcome: tables
    robots.py       what a host lets us fetch; pure, opens nothing

What always holds: the address that was checked is the address that is asked, also on a kept connection; one `start` is
at most one request on the wire; redirects are answers; no byte is kept that was not counted first. Bodies stay as they
were sent, compressed and chunked; parse children undo both. Reasons and figures: docs/decisions/0006-fetch.md.
"""
