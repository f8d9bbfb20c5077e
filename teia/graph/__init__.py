"""The link graph of the pages, and the authority scores that follow from it (F5).

Input: a page's key and those of the pages it links to, whenever the page is read. Output: a score for every page and
for every URL that a page links to.

    linkfile.py  the links of a cell's pages on disk; append-only, the last entry of a page counts
    matrix.py    the links of all cells as one sparse matrix
    pagerank.py  the scores: PageRank by power iteration
    rankfile.py  the scores on disk, mapped by their readers: search, and the frontier's order `pagerank` (A6)
    renewal.py   all of it in one call: link files in, rank file out

Everything here is derived from the archive and can be made again. Keys are those of `urls.key_of`. Start reading at
`renewal.update_ranks`.
"""
