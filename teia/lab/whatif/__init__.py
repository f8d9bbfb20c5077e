"""What if: a collection's own history under another delay, budget, policy or number of machines.

What comes in: a collection that was kept fresh for a while. What goes out: how fresh it would be kept as it is and
as it might be, side by side, with an interval; what that asks of its hosts; how long a pass takes.

    past.py      what is known: posteriors of all rates, ages of copies, what hosts said and how they answered
    backtest.py  whether those rates foretold what later visits found, and by how much they were off
    pace.py      how far apart a host's visits would be: its own rests, shared addresses, budget, machines
    live.py      every policy as the live crawler carries it out, host by host, for the simulator
    judging.py   visits judged in worlds drawn from the posteriors
    answer.py    the question and the answer. Begin here

Nobody saw every change: rates are posteriors. A policy plans by what is known of them now; what pages do is drawn from
them, several times over, and so is by how much the priors may be wrong. docs/whatif.md says how good that is.
"""
