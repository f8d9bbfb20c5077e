"""The contents of a result.

results      results with all their fields
snippets     passages that show why a page was found
content      content told from navigation; titles
marks        find and mark words in a text
_marks       its loops, compiled
facets       counts by host, language, type, year
explain      every part of a score
suggestions  suggestions when little was found
spelling     did you mean
"""
