"""The circle of the Distributor (A2): it assigns cells to nodes by hashing alone.

circle     points, successors, the owner of a cell
host_cell  host -> site -> slot -> cell -> point on the circle
fingers    finger tables and routed look-ups
"""
