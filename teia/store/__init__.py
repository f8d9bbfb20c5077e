"""store: one cell's folder on disk, except its frontier database.

In comes what a request brought (`Fetched`, after a parse child has undone the chunks) and one row about it; out come
standard files that other people's tools read: WARC, CDXJ, Parquet. docs/formats.md describes every file.

    root.py       the data folder: its format, its lock, collections, cells         begin here
    durable.py    files that are whole or not there; disk errors in words
    warc.py       an answer as WARC records, one gzip member each (pure; runs in the parse children)
    archive.py    the cell's WARC files: append, sync, rotate, cut after a crash
    reader.py     the same files read back, damaged ones too
    surt.py       the sort key of a URL in web archive indexes
    cdxj.py       an index beside each closed WARC file
    audit.py      is the archive what it should be?
    fetchlog.py   one row per fetch, and which files of them count
    parquet.py    those files
    sql.py        SQL over them

The order of a commit makes a crash harmless: records are appended and synced here first, then the frontier's
transaction names the position reached. A position is the truth about the archive: what lies behind it is cut at the
next start, what lies before it is never touched. CDXJ files are derived and can be made again from the WARC files;
a Parquet file counts only when the frontier has counted its serial number.
"""
