"""Assignment of cells and sites to nodes.

balance          decide transfers from load states (A5, A14)
balancer         carry those decisions out, on one node at a time
landmarks        distances between nodes by their round trips to landmarks (A14)
cell_owners      nodes of a cell in order: decided owners of cells beside the circle, drained nodes
site_strategies  placement strategies for sites: hash, geo, rtt (A4)
countries        the country and city of an address, from a local file
site_analyzer    the Analyzer of A1: accept a site or redirect it
"""
