"""Scope rules: the URLs that belong to a collection.

scope       scope rules
rule_lists  long lists of rules
lint        warnings about rules
"""
