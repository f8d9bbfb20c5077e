"""Searching, and looking at what was found.

search            results of a query
page              all data about one URL
capture           an archived capture, shown safely
capture_calendar  captures of a page by day
raw               single archived records for frames
memento           captures by URL and time, for archive clients (RFC 7089)
cdx_server        lists of captures, for archive clients
diff              two versions side by side
feeds             OpenSearch description, results as a feed
"""
