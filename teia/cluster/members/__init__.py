"""The members of the cluster, and the settings they agree on.

session       the session key that proves a node alive, and how others declare it dead
instances     earlier instances of nodes that have ended
join          take a node name that is free
agreement     settings, number of cells and identity of a collection, agreed by all
shared_files  files that settings name, such as rule lists, shared by all nodes
"""
