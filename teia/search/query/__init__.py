"""From typed text to a syntax tree.

lexer           text -> words, phrases, filters, operators
parser          any text is a query
tree            the syntax tree
normal_form     one form for queries that mean the same; limits
canonical_text  one text for queries that mean the same
rewrite         derived queries: fewer words, other spelling
describe        a query in plain words
notes           messages about a query
filters         values of filters: hosts, languages, types, dates
words           word boundaries as the index has them
analysis        stems and folded words
question_words  question words: what, how, quais
query_language  the language of a query
"""
