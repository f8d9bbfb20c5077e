"""Read-only views for the command line, the web and the API.

page            keys of `teia page --json`
page_detail     all details of one page
page_signals    signals about one page
captures        captures of a page in the archive
compare         two versions compared
capture_reader  captures read in killable children
links           the link graph
why_waiting     why a URL was not fetched yet
trace           a URL's way through the roles of A1
hosts           all hosts side by side
host_reasons    reasons why a host is not finished
host            everything about one host
feasibility     how long one pass over a host takes
host_rhythm     the last requests to one host
queue           what is fetched next
waiting_urls    every waiting URL with the reason
alerts          alerts of one crawl
dismissals      alerts that were set aside
sql_tables      the frontier as SQL tables
sql_child       SQL in a killable child, with hard limits
reports/        reports on a collection's contents and their crawl (C5, C9, T8, F9)
"""
