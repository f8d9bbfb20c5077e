"""A signal source: the files below the folder of a web server that changed in the last hours.

The operator of a site knows what changed. Run it beside the crawl, for instance every hour:

    teia signals follow changed-files /srv/www https://www.example.org/ 1 --data archive
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urljoin


def changed_files(folder: str, site: str, hours: str = "1") -> Iterator[tuple[str, float]]:
    """Yield the URL and the time of each changed file; a file `index.html` is also the page of its folder."""
    since_s = time.time() - 3_600 * float(hours)
    root = Path(folder)
    for path in sorted(root.rglob("*")):
        changed_s = path.stat().st_mtime
        if path.is_file() and changed_s >= since_s:
            name = quote(str(path.relative_to(root)))
            yield urljoin(site, name), changed_s
            if path.name == "index.html":
                yield urljoin(site, name.removesuffix("index.html")), changed_s
