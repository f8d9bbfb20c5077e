"""The index: what can be searched. Derived from the archive, so it can always be made again.

schema    the fields, and how words are made from text; plurals and languages belong to it
entry     one page on its way into the index, and as the index keeps it
cell      the index of one cell: put, remove, commit
handover  pages on their way from the crawler to the indexer; anchors, the words on links to them
reader    an index opened to be searched; union, those of several cells as one
relations who links to a page
"""
