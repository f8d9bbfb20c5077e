"""Other formats.

pdf         PDF
feed        RSS and Atom
sitemap     sitemaps
xml_events  XML as a stream of tags
"""
