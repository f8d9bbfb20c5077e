"""Runs of the lab that were started from the browser or by the API.

forms      fields of the lab's forms, the pages of a plan, and the command they stand for
workbench  waiting runs and the one under way
findings   a run's report: rows, charts, warnings, comparison
runs       stored runs: `lab.runs/NUMBER/`; estimated duration of a run
"""
