"""The frontier: the choice of the next URL to fetch, and its time.

cell/   One cell's database `frontier.sqlite`: hosts, URLs, queue, history.
tables/ Verbs on its tables for views, reports, the index and the archive.
queue/  The order of hosts, and the time each may be requested again.
rules/  Scope rules: the URLs that belong to a collection.
traps/  Endless URL spaces.
page_sums  Checksums of the pages of `frontier.sqlite`.
log_mover  Its log, moved into the file beside the commits.
"""
