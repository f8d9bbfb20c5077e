"""Other formats.

pdf         PDF
postscript  PostScript, by Ghostscript
office      Office Open XML, OpenDocument, EPUB
feed        RSS and Atom
sitemap     sitemaps
xml_events  XML as a stream of tags
"""
