"""Cluster mode: many machines that crawl one collection together, with NATS JetStream between them (docs/cluster.md).

node      one node from joining to leaving; start reading here
local     a whole cluster on one machine, for trying it
nats/     The connection to NATS: everything here speaks its protocol and knows nothing of crawling.
circle/   The circle of the Distributor (A2): it assigns cells to nodes by hashing alone.
members/  The members of the cluster, and the settings they agree on.
cells/    The cells of a node: their log, ownership, local copies, snapshots and files.
placing/  Assignment of cells and sites to nodes.
crawl/    The crawl of one node: the crawler of one machine over the cells that this node owns.
search/   Search over all nodes.
views/    Read-only views of a cluster.
"""
