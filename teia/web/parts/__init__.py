"""What several pages show or do; a page imports from here, never from another page.

collection_state  counts, hosts, alerts and freshness of one collection
start_crawl       the start of a collection's crawl
bulk_actions      bulk actions that users requested
archived_records  records of the archive: who may read one, its signed address, its body
lab_runs          runs of the lab
"""
