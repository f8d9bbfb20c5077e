"""Which pages to visit again, and when: the planner (P1, P3 to P5, P8).

What comes in: pages with a weight, a change rate and the age of our copy; servers with the interval that politeness
asks for; a horizon and a budget. What goes out: a plan that a crawler or the lab's simulator carries out, and the best
that anyone could do with the same means.

    model.py        the world of a plan, in columns
    formulas.py     freshness of a Poisson page: staleness of a gap, the value of a visit, age
    segments.py     sums over the pages of each server
    threshold.py    the root finder that both counts and intensities use
    counts.py       phase 1: how often each page is visited, exactly
    merge.py        phase 2: when, as a `Timetable`
    intensities.py  the same for a crawl without end: visits per second
    bound.py        the best that any polite policy could reach
    slotprice.py    the same, nearly tight, for small worlds
    policy.py       what a policy is, and the three kinds of plan
    dispatch.py     one host's pages in the order of a plan, for a crawler that asks "which next, and when?"
    policies/       the policies by name
    scenario.py     worlds from a file, and made-up ones

Where the rates come from (docs/rates.md):

    history.py      what a visit saw, and what is kept of a page's visits
    mask.py         which changes of a text mean something
    trust.py        whether a host's Last-Modified and ETag tell the truth
    rates.py        change rates with their uncertainty, for a million pages at once
    priors.py       what to think of pages that were seen too seldom

Inside, times are seconds and rates are per second. docs/refresh.md has the mathematics. Begin with `model.World` and
`counts.plan_counts`.
"""
