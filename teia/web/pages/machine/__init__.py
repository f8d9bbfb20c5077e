"""The installation and its cluster.

cluster          nodes, cells, moves
cluster_metrics  the cluster's part of /metrics
metrics          /metrics for Prometheus
api              the API with lines to paste
"""
