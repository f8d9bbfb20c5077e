"""The indexer: it follows the crawl and makes it searchable.

process      the indexer as a process
companion    the indexer of a crawl: start, restart, finish
indexer      follow committed pages, index them
after_split  pages of a split cell leave the index
reread       index entries built again from the archive
rebuild      check the index, build it again
state        number of pages that can be found, and that wait
mend_idle    bring indexes up to date that no crawl follows
ranks        PageRank and other whole-collection values
open_search  open a collection for search
examples     example queries
"""
