"""Signals from other parties about pages: a user requests one, or one has changed.

squid_helper   runs beside a Squid and announces the pages that its users request (C7); imports nothing of ours
squid_conf     how it is attached to a Squid: lines for squid.conf
announce       signals: the socket for those of a Squid, and the inbox where all wait for the crawl
trust          trust in a site's claims about its own pages, learnt from the results of visits
accesslog      logs of proxies and servers: the pages that people request
indexnow       pings of sites, and the keys that prove their origin
websub         hubs that notify us when a feed has changed
subscriptions  watched pages and searches, and the notifications of their subscribers
webhook        signatures of messages to a subscriber's address
"""
