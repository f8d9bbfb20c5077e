"""Commands that read what was crawled.

search  `teia search`
page    `teia page`, `teia trace`
report  `teia report`
runs    `teia runs`
sql     `teia sql`
watch   `teia watch`
"""
