"""Aliases of sites, soft 404s, trap notes.

aliases      find two names of one site, treat them as one (A7)
likeness     evidence that two names are one site
soft404      pages that say "not found" with status 200
trap_notes   reports of the commit to the trap watch
"""
