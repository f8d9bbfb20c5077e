"""The full-text index. Derived from the archive, so it can always be made again.

schema          the fields, and how words are made from text; plurals and languages belong to it
stems           the words of a text, stemmed and folded, every distinct word analysed once; page_texts, those of a page
training_words  the stems of indexed pages, kept for the training of a semantic model
entry           one page on its way into the index, and as the index keeps it
checksums       which files of an index are damaged
position        how far an index has come, as its files tell
cell            the index of one cell: put, remove, commit
text_holders    pages with the same text, which the index stores once
handover        pages on their way from the crawler to the indexer; anchors, the words on links to them
repeated        lines that the pages of a host repeat
reader          an index opened to be searched; union, those of several cells as one
relations       pages that link to a page
paging          how index files are read from a cold disk
remote_pages    pages of other machines that scores take into account
borrowed        entries of pages whose archived copies lie on another node
outgoing        anchor words for cells of other nodes
"""
