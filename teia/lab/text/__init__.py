"""Text of synthetic pages.

prose       sentences from a small grammar
words       rules for vocabularies
english     English
portuguese  Portuguese
"""
