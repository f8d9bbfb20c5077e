"""Aliases of sites, soft 404s, answers by the client's identity.

aliases   find two names of one site, treat them as one (A7)
identity  servers that answer differently by the client's identity (T9)
soft404   pages that say "not found" with status 200
"""
