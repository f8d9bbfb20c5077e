"""Scope rules: the URLs that belong to a collection.

scope       scope rules
rule_lists  long lists of rules
site_rules  rules that name the node of a site
lint        warnings about rules
"""
