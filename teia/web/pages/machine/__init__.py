"""The installation and its cluster.

cluster  nodes, cells, moves
metrics  /metrics for Prometheus
api      the API with lines to paste
"""
