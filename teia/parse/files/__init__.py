"""Other formats.

pdf         PDF
office      Office Open XML, OpenDocument, EPUB
feed        RSS and Atom
sitemap     sitemaps
xml_events  XML as a stream of tags
"""
