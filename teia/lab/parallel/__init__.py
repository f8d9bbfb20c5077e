"""Cho's modes of parallel crawlers, on the links of a lab world (A16; Cho & Garcia-Molina, 2002).

web.py       the links of a world, as numbers
split.py     whose is which page: by URL, by site (our circle), by hierarchy, by the length of the name (T4)
crawl.py     processes that go by a mode: firewall, cross-over, exchange; what they fetched, what they told each other
measures.py  coverage, overlap, communication, quality

A model without time: every process fetches one page a turn. `teia lab reproduce A16` shows it, and lets real nodes say
whether they do what it says of exchange by site.
"""
