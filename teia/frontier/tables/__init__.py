"""Verbs on a cell's tables for the other packages, which have no SQL of their own on them.

pages           URLs, their pages and their visits
page_summaries  last visits and links of pages, for search results
page_changes    pages in the order of their last changes, for the index
hosts           hosts, and how many URLs each has
counts          counts for reports
consistency     contradictions between the tables, for an audit
captures        locations of captures in the archive
renderings      kinds of pages that are rendered by a browser, and the pages that were
pending_log     rows of the fetch log that are not yet in Parquet files
"""
