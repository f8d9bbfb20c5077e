"""Search over all nodes.

open                open a data folder for search: the cluster, or the folder alone
ask_nodes           scatter a query to the nodes, merge their answers (F8)
answer              answer queries for the cells of this node
messages            subjects and envelopes of search messages
processes           the index and search processes of a node
search_process      the process that answers searches and fetches data for the index
fetch_for_index     fetch link files, ranks and anchor texts from other nodes
give_for_index      give those to other nodes
forget_after_split  let the index of a split cell forget pages in time
"""
