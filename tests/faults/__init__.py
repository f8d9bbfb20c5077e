"""Faults of the disk, one at a time: a write, a sync, a truncation or a change of names that fails; power losses.

shim.c      a library for LD_PRELOAD that makes the n-th call on some files fail
harness.py  runs under it: crawls a small web and looks at what is there, in a forked child each time
bench.py    drives both: builds the library, counts the calls of a crawl, makes one of them fail, starts again
powerloss.py  images of the disk after a power loss, from a trace of all writes, syncs and changes of names
test_*.py   what must hold then: the next start opens, and nothing that was acknowledged is lost
"""
