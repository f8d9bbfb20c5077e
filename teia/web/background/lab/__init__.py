"""Runs of the lab that were started from the browser or by the API.

forms      fields of the lab's forms, and the command they stand for
workbench  waiting runs and the one under way
estimates  duration of a run
findings   a run's report: rows, charts, warnings, comparison
runs       stored runs: `lab.runs/NUMBER/`
scenarios  pages that a plan is made for
"""
