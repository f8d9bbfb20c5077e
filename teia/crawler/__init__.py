"""The crawler of one machine: the loop, the group commit, and the parts that run inside them.

loop                one event loop: take URLs, have them fetched and parsed, commit; start reading here
running_collection  one collection while it is crawled: hosts in memory, visits under way
ownership           hosts that this machine may request: all of them, or those of a node
commit              group commit: the only place where a visit becomes durable
start               make a crawler from a data folder, run it, close it
compiled_settings   a configuration, checked and compiled
requests            visits, bulk actions and announcements requested of a running crawl
open_cell           a cell's database, archive and trap detector, opened at one committed point
visit               one visit from its start to its commit
content_seen        recognise bodies that another URL brought before, ahead of parsing
verdicts            classify an answer: retry, 429 and Retry-After, the task of the parse child
robots              robots.txt of every origin
budgets             request, byte and failure limits of hosts and domains
resources           open files and disk space: how many sockets fit; pause before the disk is full
own_timeouts        find that this machine loses documents to its own time-outs; send fewer requests at once
depths              lower the depth of links found on a shorter path
links               links of a page that are followed, and all as the archive keeps them
order_hints         hints for orders that judge links
pagerank_order      PageRank scores for the order `pagerank`
fetch_rows          rows of the fetch log
agent_log           owners of a cell, hand-overs and load states, for `teia trace`
page_summaries      the frontiers opened for search results: last visits and links
lookup              a collection opened for reading: a URL, its history, captures and links; names of one site
proxy_collector     fetch announced pages through the operator's cache (C7)
live_activity       the crawl's activity at this moment
child/              The work of parse children.
upkeep/             Upkeep of the archive: signatures, retention, removal.
rendering/          Pages shown by a browser.
sites/              Aliases of sites, soft 404s.
keep_fresh/         Known pages are visited again.
signals_in/         Change signals on their way in.
"""
