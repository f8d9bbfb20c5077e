"""The link graph: who links to whom, and the authority that follows from it (F5).

What comes in: a page's key and those of the pages it leads to, whenever the page is read. What goes out: a score for
every page and for every URL that a page leads to.

    linkfile.py  the links of a cell's pages on disk; appended, the last word of a page counts
    matrix.py    the links of all cells as one sparse matrix
    pagerank.py  the scores: PageRank by power iteration
    rankfile.py  the scores on disk, mapped by whoever ranks: search, and the frontier's order `pagerank` (A6)
    renewal.py   all of it in one call: link files in, rank file out

Everything here is derived from the archive and can be made again. Keys are those of `urls.key_of`. Begin with
`renewal.renew_ranks`.
"""
