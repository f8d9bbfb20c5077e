"""The event simulator (P2): crawlers, servers and documents on a timeline, and the result of a policy.

Input: a world (`teia.refresh.model`), a policy, a duration. Output: the exact expected staleness of the visits that
were made, the visits themselves if requested, lateness, age; and beside them the bounds that no policy can beat.

    timeline.py    the events one by one, in Python: crawler free, scheduler ready, document modified, statistics.
                   Begin here; it uses the same queues as the live crawler
    _loop.pyx      the same visits from a compiled loop; compiled.py wraps it as a timeline
    changes.py     times of document modifications: Poisson, or Wolf's mix (P7)
    run.py         a policy carried out for days: plans anew when its plan ends, measures as it goes
    measures.py    staleness and age between two instants, and the lateness of visits
    transport.py   Wolf's third phase, by assignment, for small cases (P5)
    bounds.py      the best that any polite policy could reach, over the simulated time
    slotprice.py   the same, nearly tight, for small worlds
    command.py     the command `teia lab simulate`

docs/lab.md has the rules of the simulation, docs/decisions/0020-simulator.md their reasons.
"""
