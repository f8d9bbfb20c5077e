"""Servers that mean ill: what the crawler must survive, on loopback sockets (docs/security.md).

server   a raw-socket server with one behaviour for each path, and its log
answers  malformed answers and ambiguous framing, with the outcome of each
cases    all hostile behaviours by the entry of the catalogue in docs/security.md, each on a host of its own
"""
