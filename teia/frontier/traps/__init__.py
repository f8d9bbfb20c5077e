"""Endless URL spaces.

url_shapes     URL shapes without end
patterns       the pattern that many URLs share
pattern_table  a host's patterns, in memory and on disk
detector       which patterns are traps
watch          park URLs of suspected patterns
spellings      other spellings of one URL
"""
