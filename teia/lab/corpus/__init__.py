"""Lab text by the hundred thousand pages, for measuring search: made without crawling, from a seed.

vocabulary   words by frequency
pages        the pages: a lab world's, with the words of a vocabulary
collection   pages in the cells of an index, on disk
questions    queries of every kind, those of F11 among them
timed        search times, and tantivy's part of them

docs/lab.md explains why the lab's own sentences are not enough.
"""
