"""store: one cell's folder on disk, except its frontier database.

Input is the result of a request (`Fetched`, after a parse child has undone the chunks) and one row about it; output are
standard files that other tools read: WARC, CDXJ, Parquet. docs/formats.md describes every file.

    root.py       the data folder: its format, its lock, collections, cells         begin here
    warc.py       an answer as WARC records, one gzip member each (pure; runs in the parse children)
    archive.py    the cell's WARC files: append, sync, rotate, cut after a crash
    reader.py     the same files read back, damaged ones too
    seen_bodies.py  records by a checksum of their body, for the content-seen test
    surt.py       the sort key of a URL in web archive indexes
    cdxj.py       an index beside each closed WARC file
    signing_key.py  the key that signs manifests
    manifest.py   signed digests of the WARC files, in a chain
    fixity.py     the files compared with the manifest, now and then
    closed_file.py  index, digest and number of records of a closed WARC file
    erase.py      removal of single records, without moving the others
    audit.py      integrity checks of the archive
    fetchlog.py   one row per fetch, and the files of them that count
    parquet.py    those files
    pending.py    rows that are in no file yet
    sql.py        SQL over them

The order of a commit makes a crash harmless: records are appended and synced here first, then the frontier's
transaction names the position reached. The position is the authority on the archive: bytes behind it are cut at the
next start, bytes before it are never touched. CDXJ files are derived and can be made again from the WARC files; a
Parquet file counts only when the frontier has counted its serial number.
"""
