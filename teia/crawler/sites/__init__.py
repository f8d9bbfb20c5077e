"""Aliases of sites, soft 404s.

aliases  find two names of one site, treat them as one (A7)
soft404  pages that say "not found" with status 200
"""
