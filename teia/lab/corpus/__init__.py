"""Lab text by the hundred thousand pages, for measuring search: made without crawling, from a seed.

vocabulary   words by how frequent they are
pages        the pages: a lab world's, with the words of a vocabulary
collection   pages in the cells of an index, on disk
questions    what is asked of them: queries of every kind, those of F11 among them
timed        how long that takes, and how much of it is tantivy's

docs/lab.md says why the lab's own sentences are not enough.
"""
