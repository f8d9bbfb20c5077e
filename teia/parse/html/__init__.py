"""Web pages.

processor     the processor of web pages
tree          the tree a browser would build
bounds        limits on markup before it is parsed
links         every URL a document points to
references    srcset, refresh, Link headers, CSS
base          the base URL of references
directives    meta robots and X-Robots-Tag
script_signs  signs that scripts may show more than a page as received
replay        an archived page made safe to look at
replay_style  style sheets of archived pages
"""
