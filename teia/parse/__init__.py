"""Parsing: bytes in; links, text, metadata and fingerprints out; in children that may be killed.

    parsing     parse_document(url, head, body) -> ParseResult: the one way in; it never raises
    document    what a processor is given (Document) and returns (Findings), and how a collection wants it (Options)
    processors  which processors read which media type; users add their own (A15)

An answer passes through headers, decode (chunks, gzip), mime (what is it?) and encoding (which characters?), then
through the processors of its type: html (with bounds, links, references, directives), pdf, sitemap, feed, plain text;
at last language, text and fingerprint. A web page is scanned in one pass (scan/) or, if that gives up, becomes a tree
(tree); either way html and links see an extract of it.

    pool        ChildPool: any `job(bytes) -> bytes` in killable children; used by the crawler, knows nothing of parsing
    zygote      the process that children are forked from
    child       what runs inside one

Begin with parsing.py, then html.py; pool.py stands on its own. The choices are in docs/decisions/0007-parse.md
and 0014-scanner.md.
"""
