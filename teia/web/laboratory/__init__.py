"""Runs of the lab that were started from the browser or by the API.

    asking      what a form holds, what is wrong with it, and the command it stands for
    runs        a run as it is kept in the root: its command, state, times, report, log and digest
    benchwork   the runs that wait and the one that goes: child processes, one at a time
    estimates   how long a run will take, by what others took
    findings    what a report says, for pages: rows, charts, warnings, comparison

A run is `teia lab … --json` in a process of its own; nothing of the lab is imported here, only its reports are read.
"""
