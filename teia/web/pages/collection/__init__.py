"""Running a collection.

collections  all collections; start, pause, stop, remove
monitor      state of a crawl, and its open alerts
edit         make, change or clone a collection
add_urls     URLs added by form or program
bulk         actions on all URLs of a filter
queue        next fetches, and the waiting URLs
hosts        all hosts
host         one host
freshness    freshness of the captures
crawl_runs   runs, and the changes of each
reports      the papers' tables, and SQL
data         disk use, audits, backup
watches      subscriptions
"""
