"""Collections: their settings, their schedules, and changes to both.

settings        settings of collections: created, edited, changed while a crawl runs or not
stored_settings the collections of a folder, and their stored settings
drafts          a collection drafted by form or program
preview_change  effect of a settings change on known URLs
preview_url     explain step by step whether a URL would be crawled
add_urls        many URLs added at once
bulk            bulk actions on URLs
control_file    the file `control.sqlite`: its tables, the crawler's reports, requests to the crawler
poll_requests   the crawler's side: a handler for each kind of request
calendar        dates, periods, deadlines (T1)
coordinator     due schedules become runs (T3)
scheduled_runs  the log of runs, and the run that a schedule requires at an instant
controllers     a collection as the coordinator sees it
commands        standing commands of users (T2); removal of a collection with its files
resident        the coordinator of `teia serve`, and when one is needed
overview        a schedule in words: next starts, last runs
account         keys of `teia crawl --json` and `status --json`; numbers of a crawl over time
figures         catalogue of the figures: names, meanings, periods
open_cells      the frontiers of a collection, opened one after the other
index_state     number of pages that can be found, and that wait
"""
