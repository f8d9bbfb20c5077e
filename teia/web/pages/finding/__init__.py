"""Searching, and looking at what was found.

search   results of a query
page     all data about one URL
capture  an archived capture, shown safely
raw      single archived records for frames
diff     two versions side by side
feeds    OpenSearch description, results as a feed
"""
