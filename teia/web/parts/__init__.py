"""What several pages show or do; a page imports from here, never from another page.

collection_state  counts, hosts, alerts and freshness of one collection
freshness_report  the report on freshness, computed once for all of them
last_requests     the last request of a collection to each host
start_crawl       the start of a collection's crawl
bulk_actions      bulk actions that users requested
archived_records  records of the archive: who may read one, its signed address, its body
lab_runs          runs of the lab
"""
