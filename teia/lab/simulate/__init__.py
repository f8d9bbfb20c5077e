"""The event simulator (P2): crawlers, servers and documents on a timeline, and what a policy makes of them.

What comes in: a world (`teia.refresh.model`), a policy, for how long. What goes out: the exact expected staleness of
the visits that were really made, the visits themselves if wanted, lateness, age; and beside them what nobody can beat.

    timeline.py    the events one by one, in Python: crawler free, scheduler ready, document modified, statistics.
                   Begin here; it asks the same queues that the live crawler asks
    _loop.pyx      the same visits from a compiled loop; compiled.py gives it a timeline's face
    changes.py     when documents are modified: Poisson, or Wolf's mix (P7)
    run.py         a policy carried out for days: plans anew when its plan ends, measures as it goes
    measures.py    staleness and age between two instants, and how late visits were
    transport.py   Wolf's third phase, by assignment, for small cases (P5)
    bounds.py      what nobody can beat, over the time that was simulated
    command.py     what `teia lab simulate` does

docs/lab.md has the rules of the game, docs/decisions/0020-simulator.md why it is so.
"""
