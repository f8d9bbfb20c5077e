"""The contents of a result.

results        results with all their fields
snippets       passages that show why a page was found
content        content told from navigation; titles
marks          find and mark words in a text
_marks         its loops, compiled
text_blocks    results as lines and tables for a terminal
facets         counts by host, language, type, year
explain        every part of a score
correct_query  correct a misspelt query, or suggest others when little was found
spelling       words of the index that resemble a misspelt one
"""
