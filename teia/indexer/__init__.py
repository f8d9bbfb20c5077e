"""The indexer: it follows the crawl and makes it searchable.

process         the indexer as a process
keep_process    the indexer of a crawl: start, restart, finish
indexer         follow committed pages, index them
cell_indexer    the files of one cell that an indexer writes
after_split     pages of a split cell leave the index
drop_pages      pages leave the files of the index at once
reread          index entries built again from the archive
rebuild         check the index, build it again
repair_idle     bring indexes up to date that no crawl follows
ranks           PageRank of the whole collection
semantic_model  the semantic model, trained in the background
past_search     a collection searched as it was at a moment
open_search     open a collection for search; example queries
answer_request  a search as `teia search` requests it
help_queries    examples for the help that find something
"""
