"""What others tell us of pages: that somebody asks for one, that one has changed.

squid_helper   runs beside a Squid and announces the pages that its users ask for (C7); imports nothing of ours
squid_conf     how it is attached to a Squid: lines for squid.conf
datagrams      what it sends, and the socket where that is heard
announce       what a signal is, and the inbox where signals wait for the crawl
trust          how far what a site says of its own pages is believed, learnt from what visits found
accesslog      logs of proxies and servers: which pages people ask for
indexnow       pings of sites, and the keys that prove whose they are
websub         hubs that tell when a feed has changed
subscriptions  pages and searches that are watched for somebody, and what they are told
webhook        how a message to somebody else's address is signed
"""
