"""The crawl of one node: the crawler of one machine over the cells that this node owns.

ownership             hosts that this node may request; open the cells that it owns
commit                steps of the group commit: links from and to other cells
agent_events          joins, hand-overs, load states and sites passed on, for `teia trace`
arrivals              links that other nodes sent: counts by sender, and the lag of their merge
signals               signals, straight to the owner of their page
limits                limits of a whole collection, shared by nodes
shared_addresses      leases on addresses that several nodes need
settings              settings and commands of users, agreed by all nodes; settings that a cluster refuses
url_requests          requests of users about URLs, carried out by their owner
shared_aliases        names of sites that other nodes found to be aliases
runs                  scheduled runs, begun once for all nodes; the end of a crawl
"""
