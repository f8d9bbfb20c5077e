"""The revisit planner: the pages to visit again, and the time of each visit (P1, P3 to P5, P8).

Input: pages with a weight, a change rate and the age of the stored copy; servers with their politeness interval; a
horizon and a budget. Output: a plan that a crawler or the lab's simulator carries out, and the best result that any
planner could reach with the same means.

    model.py        the world of a plan, in columns
    formulas.py     freshness of a Poisson page: staleness of a gap, the value of a visit, age
    segments.py     sums over the pages of each server
    threshold.py    the root finder that both counts and intensities use
    arrays.py       the libraries of arrays for very large plans: numpy, torch
    large_scale.py  counts and intensities of thousands of millions of pages, on a GPU
    counts.py       phase 1: the number of visits of each page, exactly
    merge.py        phase 2: the times of the visits, as a `Timetable`
    intensities.py  the same for a crawl without end: visits per second
    demand.py       the visits of a host at each price, by which many hosts share one budget
    possible.py     bounds on freshness where rates are known as distributions (known rates: lab/simulate/bounds.py)
    policy.py       the interface of a policy, and the three kinds of plan
    dispatch.py     one host's pages in the order of a plan, for a crawler that requests the next page and its time
    policies.py     the policies by name
    scenario.py     worlds from a file, and generated ones

The rates come from these modules (docs/rates.md):

    history.py      the result of each visit, and the summary of a page's visits that is stored
    mask.py         the changes of a text that are meaningful
    trust.py        the reliability of a host's Last-Modified and ETag
    rates.py        change rates with their uncertainty, for a million pages at once
    priors.py       prior rates for pages that were visited too seldom, and the error that pages share by them
    unproven.py     the probability that a host's 304s are false, until a change has proved them

Internally, times are seconds and rates are per second. docs/refresh.md has the mathematics. Begin with
`model.RefreshWorld` and `counts.plan_counts`. All modules can be imported where only numpy is installed; functions that
need more import it themselves.
"""
