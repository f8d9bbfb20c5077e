"""Upkeep of the archive while it is crawled and by commands.

closed_files  CDXJ, signed digests and fixity runs of closed WARC files
retention     captures that the rules of a collection do not keep leave the archive
"""
