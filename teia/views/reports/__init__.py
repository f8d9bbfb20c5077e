"""Reports on a collection's contents and their crawl (C5, C9, T8, F9).

catalogue       every report by name
coverage        estimated coverage of the sites
duplicates      documents that several URLs have in common
errors          failures by class and host
estimate        capture and recapture
freshness       freshness of the captures
growth          URLs found against URLs fetched, over time
hosts           servers one by one
identities      servers that answer by the client's identity
links           references
outcomes        outcomes of all URLs (T8)
permissions     directives of pages: noindex, noarchive and others
rendered_pages  pages that a browser rendered, and what it brought
servers         documents by server
source          the data that every report reads
space           bytes by place
traps           suspected traps
types           media types
"""
