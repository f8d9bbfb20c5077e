"""Read-only views of a cluster.

single_machine  the same view for one machine without a cluster
status          nodes, owners and streams, read from NATS
view            the view that the web interface shows (A11)
node_file       `cluster.json`: the cluster as one node sees it, written every second
host_lookup     the place of a host, and the hops to it
"""
