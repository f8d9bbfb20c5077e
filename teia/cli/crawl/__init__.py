"""Commands that crawl, and that change what is crawled.

crawl          `teia crawl`
run_crawl      run a crawl with display, signals and summary
run_scheduled  run collections that have a schedule
change         `teia add`, `block`, `unblock`, `set`
control        `teia status`, `pause`, `resume`, `stop`, `schedule`
queue          `teia queue`
"""
