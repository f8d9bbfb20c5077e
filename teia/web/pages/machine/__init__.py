"""The installation and its cluster.

cluster  nodes, cells, moves
metrics  /metrics for Prometheus
figures  meaning of the figures
api      the API with lines to paste
"""
