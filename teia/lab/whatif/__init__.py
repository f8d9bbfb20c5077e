"""Predictions from a collection's own history under another delay, budget, policy or number of machines (what-if).

Input: a collection that was kept fresh for a while. Output: its freshness under the current and the alternative
settings, side by side, with an interval; the load on its hosts; the duration of a pass.

    past.py      the known facts: posteriors of all rates, ages of copies, behaviour of hosts
    backtest.py  the accuracy of those rates on later visits, and their error
    pace.py      the time between a host's visits: its own delays, shared addresses, budget, machines
    finish.py    the time until all URLs that wait were visited
    live.py      every policy as the live crawler carries it out, host by host, for the simulator
    judging.py   visits judged in worlds drawn from the posteriors
    answer.py    the parameters and the result. Begin here

No crawler sees every change, so rates are posteriors. A policy plans by the current posteriors. The changes of pages
are drawn from them, several times over, and so is the error of the priors. docs/whatif.md gives the accuracy of this.
"""
