"""Freshness by the lab's truth.

true_freshness  freshness of a crawl's captures
live_freshness  the same while a crawl runs
"""
