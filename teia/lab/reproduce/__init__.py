"""The papers' experiments, reproduced: `teia lab reproduce ID…`.

An experiment is a function that takes an `ExperimentInput` (seed, size, a progress callback) and yields `Table`s and
`Figure`s (`registry`). `catalogue` lists all experiments; `report` writes REPORT.md, a CSV file for each table and an
SVG file for each figure. Randomness comes from the run's seed alone, so the same seed gives the same files.

    registry           the types of an experiment and of its results
    catalogue          every experiment, in the mission's order
    runner             run experiments, write the report
    report             REPORT.md, REPORT.html, CSV and SVG files
    figure             a figure as SVG
    polite_scheduling  P6
    transport_phase    P5
    change_mix         P7
    refresh_worlds     worlds that the experiments on revisits share
    many_days          beyond P6: weeks instead of a day
    periodic           F2
    lookup_cost        A2
    queue_length       A6: the queue of the Sydney strategy
    strategies         A12
    strategy_model     A12 under the paper's conditions, computed
    rounds             one round of A12, by real nodes
    parallel_crawlers  A16
    nodes              real nodes on a lab web
    sessions           C5
    cache_parasite     C7
    collectors         C8
    statuses           T8
    types              F9
    search_times       F11
    crawled            a real crawl of a lab world, for C5, T8 and F9

To add one: a module named after its measurement, with a function under `@experiment(...)`, and a place in `catalogue`.
"""
