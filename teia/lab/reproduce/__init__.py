"""The papers' experiments, done again: `teia lab reproduce ID…`.

An experiment is a function that takes a `Run` (seed, size, where to say how far it is) and yields `Table`s and
`Figure`s (`registry`). `catalogue` lists all there are; `report` writes REPORT.md, a CSV file for each table and an
SVG file for each figure. Chance comes from the run's seed alone, so the same seed gives the same files.

To add one: a module named after what it measures, with a function under `@experiment(...)`, and a place in `catalogue`.
"""
