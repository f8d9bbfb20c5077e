"""The command line: one module per command, wired in `main`.

start       the way in; a plain search is run at once
main        the tree of commands
options     options that several commands share
output      results, tables, progress and JSON
exits       exit statuses and errors
progress    the display of a running crawl
long_work   progress of long commands, and their last line
advice      advice after a crawl that fetched nothing
supervised  `--supervised`: progress of lab runs that another program started
config      `teia config`
doctor      `teia doctor`
bench       `teia bench`
serve       `teia serve`
users       `teia users`
demo        `teia demo`
signals     `teia signals`
crawl/      Commands that crawl, and that change what is crawled.
read/       Commands that read what was crawled.
data/       Commands about the data folder.
cluster/    `teia cluster` and `teia node`.
lab/        `teia lab`.
"""
