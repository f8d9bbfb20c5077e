"""How well do we rank? A judged set over real documentation in Portuguese and English, and what measures systems on it.

    python -m bench.relevance                            the baselines and teia
    python -m bench.relevance --systems baseline,teia    who is better, by how much, and may it be chance?

    documents.tsv    the pages: id, language, digest of the file as it was judged
    queries.tsv      the questions: id, language, kind, half (tune or test), what is typed, what is wanted
    judgements.tsv   query, document, grade 0-3; a pair that is not listed was not judged and counts as 0

    corpus           reads the pages from installed Debian packages; no text of theirs is kept here
    judged           reads and checks the three files
    metrics          average precision, nDCG and the others, and the paired permutation test
    analysis         how the rankings of the bench cut text into terms
    baseline         stemmed, folded BM25 over one text field
    ours             teia's own index and search over the pages
    systems          who can be measured: a name and a way to get `search(query, n) -> document ids`
    report           the table and the JSON
    pool             gathers candidates to judge from rankings that differ in kind

bench/README.md says how the set was made, what the grades mean and how to read the numbers. Begin with judged.py.
"""
