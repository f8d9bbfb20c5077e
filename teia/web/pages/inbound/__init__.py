"""Routes for programs of other sites.

websub    hubs report changed feeds
indexnow  sites report changed pages
"""
