"""Parsing: bytes in; links, text, metadata and fingerprints out; in child processes that may be killed.

parse       the entry point: an answer becomes a `Page`
document    one answer as processors see it; recent, those that were read lately
processors  processors by media type (A15)
extract     the used parts of a page, scanned or from the tree
headers     response headers
decode      undo chunks and compression
mime        media types: declared and sniffed
dates       times as the web writes them
children/   Killable child processes.
html/       Web pages.
files/      Other formats.
text/       Text.
"""
