"""One cell's database `frontier.sqlite`: hosts, URLs, queue, history.

cell             hosts and URLs: merge links, settle visits; start reading here
schema           the tables
connection       the open file, and its rows of `meta`
journal          the changes of a transaction, for a cluster's log
old_names        names of the version before, for nodes that know no others
row_changes      changes as rows of tables: noted, encoded, applied
rows             rows as values: links, queued URLs, ends of visits; URLs without their host
take             read URLs from the queue on disk into memory
mail             links for other cells: outbox and delivery
shorter_paths    pages found nearer to a seed than when they were read
trails           the path to a URL, for orders that need it
in_link_counts   the links of each page that are counted as in-links
histories        histories of revisited pages and their hosts
revisits         the queue of known pages by due time
revisit_all      visit all known pages once more
fetch_now        put one URL first
bulk             drop, promote or retry many URLs
reconsider       judge URLs again under new settings
change_order     rank queued URLs anew for another order
pagerank_scores  bring new PageRank scores into the queue
site_statements  sites' reports about their own pages
alias_evidence   names that may be one site: evidence and decisions
soft404          a host's answer for pages that do not exist
move_site        move a site to another cell
split            divide a cell
"""
