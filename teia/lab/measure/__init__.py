"""Freshness by the lab's truth, and the comparison of samples.

true_freshness  freshness of a crawl's captures
live_freshness  the same while a crawl runs
comparing       statistical tests of A12
"""
