"""The cells of a node: their log, ownership, local copies, snapshots and files.

log                the log of a cell in NATS: owner, epoch, commits
publish            publish a cell's transaction to its log before it commits
owner              take cells that have no owner, give up those that belong to another node
open_cells         open the cells a node owns, after replaying their logs
copies             local copies of cells, brought up to their logs
copy_ahead         prepare the copy of a cell before it changes hands
snapshots          make and restore snapshots of cells
snapshot_schedule  make snapshots when they are due
packs              large files stored as a map and packs of pieces
ship_archive       copy archive files to where snapshots are, and back
upkeep             background work of a node for its cells
split              divide a cell that has grown too large
site_homes         the cell of each site, redirected sites included
removal            remove pages from cells, disks and snapshots of all nodes
copy_all           copy all cells of a cluster into one folder
"""
