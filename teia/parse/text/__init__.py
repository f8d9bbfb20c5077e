"""Text.

normal         text in the form in which versions are compared
folding        tables of folded characters
encoding       character encodings
language       the language of a text
fingerprint    digests and simhash of a page
"""
