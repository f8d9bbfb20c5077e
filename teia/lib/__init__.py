"""Structures that know nothing of the web: they import the standard library and numeric libraries, never teia.

    simhash.py   64-bit fingerprints of texts that are nearly alike
    tomledit.py  one value of a TOML text changed, comments kept
    topic.py     whether a text is about a topic, learnt from words and examples

If a thing here learns the word "URL", it has moved house.
"""
