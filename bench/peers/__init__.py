"""teia beside other crawlers, on the same real pages: `teia bench crawl`.

site.py              Debian's documentation served by nginx on loopback, and nginx's log of requests
loopback.py          a network with nothing but loopback, so that no crawler can leave
contenders.py        the participants: teia with three settings, and the peers, each with its command
scrapy_spider.py     code that runs inside Scrapy's environment; crawlee_crawler.py, spider_rs.mjs: the same for theirs
measure.py           one command run to its end: time, processor time and memory of all its processes
runner.py            rounds of all contenders, the check that they fetched the same pages, the table (begin here)

`scripts/peers` makes the environments. Rates are pages by nginx's count over the whole run of a command, its start and
its end included. The machine may be busy, so contenders take turns and ratios are computed within a round.
"""
