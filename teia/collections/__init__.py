"""Collections: their settings, their schedules, and changes to both.

stored           collections in a data folder, those of a cluster too
change_settings  change settings while a crawl runs or not
edits            changes of settings as people write them
drafts           a collection drafted by form or program
preview_change   effect of a settings change on known URLs
preview_url      explain step by step whether a URL would be crawled
add_urls         many URLs added at once
bulk             bulk actions on URLs
control_file     the file `control.sqlite`: tables, opening, migration
inbox            requests to the crawler, with acknowledgements
poll_requests    the crawler's side: a handler for each kind of request
reports          the crawler's reports, and dismissed alerts
calendar         dates, periods, deadlines (T1)
coordinator      due schedules become runs (T3)
run_log          runs: number, begin, end, reason
due_runs         the run that a schedule requires at an instant
controllers      a collection as the coordinator sees it
commands         standing commands of users (T2)
remove           remove a collection with its files
resident         the coordinator of `teia serve`, and when one is needed
overview         a schedule in words: next starts, last runs
account          keys of `teia crawl --json` and `status --json`
index_state      number of pages that can be found, and that wait
series           numbers of a crawl over time
"""
