"""Change signals on their way in.

announcements    announced pages, from socket to queue (C7)
indexnow         IndexNow pings: proved and weighed
websub           WebSub hubs of feeds
follow_source    signal sources of other packages
site_hints       sitemaps and feeds, read in the commit
outgoing         messages posted with the care of page requests, until they are settled
"""
