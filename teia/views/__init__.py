"""Read-only views for the command line, the web and the API.

page              one page: keys of `teia page --json`, all details, signals
captures          captures of a page in the archive
cdx               captures as a CDX server lists them
compare_captures  two versions of a page compared
capture_reader    captures read in killable children
links             the link graph
why_waiting       why a URL was not fetched yet
trace             a URL's way through the roles of A1
hosts             all hosts side by side; reasons why one is not finished
host              everything about one host: feasibility, last requests
host_budget       a host's part in the budget of all hosts, for previews
runs              runs of a collection, each with its changes against the run before
queue             what is fetched next; every waiting URL with the reason
activity          requests over time, by the class of their answer
alerts            alerts of one crawl, and those that were dismissed
sql_tables        the frontier as SQL tables
sql_child         SQL in a killable child, with hard limits
reports/          reports on a collection's contents and their crawl (C5, C9, T8, F9)
"""
