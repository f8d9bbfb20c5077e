"""Many machines: who keeps which cell, and how they agree on it (docs/cluster.md).

node.py            a node: joins, keeps cells, crawls them in shifts, leaves (begin here)
session.py         that it lives, for all to see; who may declare it dead; joining.py: how it gets its name
keeper.py          which cells it keeps: taken, given up, lost
journal.py         a cell's log in NATS: conditional records, atomic batches, outcomes that are unknown
addresses.py       which node may ask an address that hosts of several share
publishing.py      what a cell's transactions wrote, on its way to that log (teia/frontier/journal.py is the other end)
cells.py           the files of kept cells, brought up to their logs
copies.py          a node's copies of cells, from snapshot and log; following.py: made before a cell changes hands
snapshots.py       a cell's file at a known record; packing.py: what of it must be stored; objects.py: where
saving.py          when snapshots are made, and what happens when a stream runs full; shipping.py: archives
splitting.py       a cell that has grown too large becomes two; settling.py: when its index may forget what went
upkeep.py          all of that for one session of a node
crawling.py        the crawl of one machine over those cells; committing.py: its commits, with links from others
runs.py            schedules on many machines
keeping.py         pages kept fresh by nodes; limiting.py: limits of a collection; fitting.py: what a cluster refuses
placement.py       which node should have a site (A4); countries.py: where an address is
analyzer.py        accepts sites or passes them on; homes.py: where those live that were sent to another cell
balance.py         who gives cells to whom (A5, A14); balancer.py: who decides it; overrides.py: what was decided
agreement.py       what all nodes agree on; quiet.py: when nothing is left to do anywhere
wire.py            the connection to NATS; thread.py: the loop it lives in; servers.py: NATS servers of our own
replica.py         all cells copied into one folder, to be read
local.py           a whole cluster on this machine; status.py: how one stands
chord.py           the circle (A2): SHA-1 points, successors, the order in which nodes would keep a point
chord_placing.py   host -> site -> slot -> cell -> point -> node: the mapping that the cluster goes by
chord_fingers.py   finger tables, and the way of a look-up over them
chord_node.py      one point of the circle among others: join, leave, stabilisation, routed look-up
chord_where.py     where a host lives, for people: its cells, their keepers, the way there
view.py            a cluster as people see it; alone.py is that of one machine, telling.py that of a node's sessions
"""
