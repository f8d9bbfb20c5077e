"""What surrounds the ranking, judged: snippets and corrections of misspelt queries (`scripts/answers`).

The pages are those of ten documentation packages of Debian, each on a host of its own, indexed by the product's code.
Queries were written before their results were seen. The texts of pages are not in the repository.

documents     the pages of the packages, indexed
snippets      list snippets to be judged, and the share of those with navigation
spelling      corrections of misspelt queries, and of right ones
queries.tsv   200 queries, twenty for each package
snippets.tsv  the judged snippets: query, rank, URL, digest of the snippet, verdict
misspelt.tsv  100 misspelt queries with the right ones; the half `tune` was looked at while the rules were made
right.tsv     right queries, many of them about subjects that the packages lack
"""
