"""From a query to an order of pages.

plan             a query in the form sent to every shard
make_plan        choose terms, fields and weights
tantivy_query    a plan as a tantivy query
formula          the ranking formula and its weights
statistics       document frequencies over all shards
rows             matching pages as rows of arrays
_rows            its loops, compiled
passages         a second look at the first results: words that stand together, lists of links
near_duplicates  pages of nearly the same text are one result
expansion        more words from the best results (RM3)
semantic         latent semantic model
train_semantic   train that model on the collection
_sparse          its products of sparse rows, compiled
similar          more like this
"""
