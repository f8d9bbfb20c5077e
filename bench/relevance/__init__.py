"""Quality of ranking: a judged set over real documentation in Portuguese and English, and the code that measures
systems.

    python -m bench.relevance                            the baselines and teia
    python -m bench.relevance --systems baseline,teia    difference of the two, and the probability that it is chance

    manuals/         a second set, on which nothing is tuned: its queries and judgements
    documents.tsv    the pages: id, language, digest of the file as it was judged
    queries.tsv      the queries: id, language, kind, half (tune or test), text of the query, what is wanted
    judgements.tsv   query, document, grade 0-3; a pair that is not listed was not judged and counts as 0

    corpus           reads the pages from installed Debian packages; their text is not in the repository
    judged           reads and checks the three files
    metrics          average precision, nDCG and others, and the paired permutation test
    analysis         division of text into terms, for the rankings of the benchmark
    baseline         stemmed, folded BM25 over one text field
    ours             teia's own index and search over the pages
    systems          the systems: a name and a way to get `search(query, n) -> document ids`
    report           the table and the JSON
    pool             collects candidates to judge from rankings that differ in kind

bench/README.md explains how the set was made, the grades and the numbers. Begin with judged.py.
"""
