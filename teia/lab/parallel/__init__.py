"""Cho's modes of parallel crawlers, on the links of a lab world (A16; Cho & Garcia-Molina, 2002).

web.py       the links of a world, as numbers
split.py     the owner of each page: by URL, by site (our circle), by hierarchy, by the length of the name (T4)
crawl.py     processes in a mode (firewall, cross-over, exchange); their fetches and messages
measures.py  coverage, overlap, communication, quality

A model without time: every process fetches one page a turn. `teia lab reproduce A16` shows it, and checks its result
for exchange by site with real nodes.
"""
