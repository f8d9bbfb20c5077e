"""The frontier: which URL is asked for next, and when.

What comes in: URLs that somebody found (`Put`). What goes out: URLs whose server may be asked now. Between the two:

    cell.py        one cell's database: hosts, URLs, their queue, their history; the truth, on disk (tables: schema.py)
    mail.py        links for other cells: written with their page, delivered afterwards, counted once (A3)
    moving.py      a site that goes to another cell, with everything that is known of it (A4)
    splitting.py   a cell that is divided in two, by slots
    database.py    the seam to SQLite: versions, and errors in words
    politeness.py  when a server and an address may be asked again; one request at a time (A7, C2)
    ledger.py      the same on disk, shared by all collections, so that death does not shorten a rest
    schedule.py    the hosts with work, in memory: idle, resting, ready, fetching; who is next (KLWF, C1)
    scope.py       which URLs belong to the collection (A8, C4); rulelists.py matches thousands of names at once (A10)
    reconsider.py  URLs that settings kept out, looked at again when the settings are others (A10)
    nearer.py      pages whose links lie nearer to a seed than is known (T1)
    order.py       in which order a host's new URLs are taken (A6); sydney.py, trails.py and tunnels.py are for some
                   orders, reorder.py is for a collection whose order is changed, rerank.py for scores from outside
    traps.py       URL shapes that have no end (T9)
    aliases.py     names that may be one site: samples, evidence, decisions (A7)
    histories.py   what is kept of pages that were visited again, and of their hosts, for change rates (A13)
    revisits.py    known pages by the time they are due again, for crawls that keep them fresh (A13)
    sayings.py     what sites say of their own pages, and how far that is believed (docs/signals.md)
    again.py       all known pages visited again, once, for runs of a schedule (F2)
    taking.py      URLs read from the queue on disk into a host's buffer
    soft404.py     how a host answers for what does not exist
    retry.py       what each outcome means for the URL: done, gone, again later (C3)

RAM stays flat: the schedule holds one small object per host with work and a short buffer of its next URLs; everything
else is on disk. Begin with `schedule.Schedule`, then `cell.FrontierCell`.
"""
