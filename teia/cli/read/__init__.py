"""Commands that read what was crawled.

search      `teia search`
run_search  its work, without typer and rich
page        `teia page`, `teia trace`
report      `teia report`
runs        `teia runs`
sql         `teia sql`
watch       `teia watch`
"""
