"""Upkeep of the archive while it is crawled and by commands.

closed_files  CDXJ, signed digests and fixity runs of closed WARC files
removal       pages that must go leave tables and archive, also beside a running crawl
retention     captures that the rules of a collection do not keep leave the archive
"""
