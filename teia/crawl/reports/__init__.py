"""Reports: what a collection holds and how it got there, in the papers' tables (C5, C9, T8, F9).

In comes a `Source`: the fetch log and the cells of one collection, read-only and as they stood at one instant. Out come
small dataclasses, one module a report: plain fields, tuples of flat rows, and `notes` for what a number does not say of
itself. They are the JSON of `teia report NAME --json` as they are, and its tables too.

To add one: a module with a function `(Source, top) -> dataclass`, a line in `catalogue`, a row in docs/commands.md.
"""
