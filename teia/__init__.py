"""teia: crawl a part of the web politely, archive it, keep it fresh, search it.

The life of a URL, folder by folder: it comes from `seeds` or from a link, waits in the `frontier` until its server may
be asked, is brought by `fetch`, read by `parse`, kept by `store`, found by `search`, and becomes due again when
`refresh` thinks it has changed. `crawl` wires these on one machine, `cluster` on many; `lab` is a web to try it on.
"""

__version__ = "0.1.0"
