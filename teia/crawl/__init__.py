"""One machine: the stages wired together, from seeds to a committed archive.

opening.py   makes a crawler from a data folder and a configuration, and closes it again
engine.py    the loop: whose turn, fetch, read, conclude (begin here)
crawl.py     one collection while it runs: its hosts in memory, what it wants committed
commit.py    the group commit, where a visit becomes true
job.py       what a parse child does with an answer
robots.py    the robots.txt of every origin being visited
judge.py     what an answer means for its URL
cells.py, logrows.py, messages.py, visits.py     the small things between them
"""
