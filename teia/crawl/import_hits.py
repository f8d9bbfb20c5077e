"""Access logs become part of a collection: pages that people ask for are found, and weigh more (docs/signals.md).

How often each page was asked for is kept in `hits.txt` of the collection, lines of URL and hits; `refresh.weights` =
`hits` goes by it. Hits of several logs add up; the same file taken in twice counts twice, so a mark of what was taken
in is kept beside (name, size and a digest of its beginning). Only pages in scope are kept, of other sites nothing is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from pathlib import Path

from teia.crawl.commit import Group
from teia.crawl.importing import Target
from teia.crawl.meaning import meaning_of
from teia.durable import disk_errors, write_atomically
from teia.errors import UsageError
from teia.frontier.cell import Found
from teia.frontier.schema import BY_SIGNAL
from teia.frontier.tails import tail_of
from teia.signals.accesslog import LOOKED_AT, Format, Hits, count_hits, format_of, lines_of, opened
from teia.store.root import CollectionFolder
from teia.urls import key_of, split

BATCH = 2_000
DEPTH = 1
"""Of a page that only a log names: as if it were one hop from a seed."""

MARK = "# taken in: "
_BEGINNING = 65_536


@dataclass(slots=True)
class TakenIn:
    """What came of logs. `hits` are requests for pages in scope, `urls` how many pages these are."""

    collection: str
    files: int = 0
    lines: int = 0
    hits: int = 0
    urls: int = 0
    urls_new: int = 0
    out_of_scope: int = 0
    broken: int = 0
    not_pages: int = 0
    no_url: int = 0
    dropped: int = 0
    torn: int = 0
    skipped: int = 0
    formats: dict[str, str] = field(default_factory=dict)


def hits_file(folder: CollectionFolder) -> Path:
    """Where a collection keeps how often its pages were asked for; may be missing."""
    return folder.path / "hits.txt"


def read_hits(path: Path) -> tuple[Counter[str], list[str]]:
    """Hits by URL, and the marks of the logs they are from."""
    hits, marks = Counter[str](), []
    if path.exists():
        with disk_errors(path, "read"):
            lines = path.read_text("utf-8", "replace").splitlines()
        for line in lines:
            if line.startswith(MARK):
                marks.append(line.removeprefix(MARK))
            url, _, number = line.rpartition(" ")
            if number.isascii() and number.isdigit() and url:
                hits[url] += int(number)
    return hits, marks


def take_in(target: Target, folder: CollectionFolder, files: Sequence[Path], form: Format | None, site: str) -> TakenIn:
    """Count the hits of logs, keep those of pages in scope, and make pages known that are not."""
    done = TakenIn(folder.name)
    meaning = meaning_of(target.config, folder.lists)
    path = hits_file(folder)
    kept, marks = read_hits(path)
    found = Hits(Counter(), Counter())
    for file in files:
        mark = _mark_of(file)
        if mark in marks:
            done.skipped += 1
            continue
        chosen = form or _recognised(file)
        done.formats[file.name] = chosen
        with disk_errors(file, "read"), opened(file) as log:
            count_hits(log, chosen, found, site, queries=target.config.signals.queries)
        marks.append(mark)
        done.files += 1
    in_scope = {url: hits for url, hits in found.urls.items() if meaning.wants_link(url, DEPTH, BY_SIGNAL)}
    done.out_of_scope = found.urls.total() - sum(in_scope.values())
    done.hits, done.urls = sum(in_scope.values()), len(in_scope)
    for name in ("lines", "broken", "not_pages", "no_url", "dropped", "torn"):
        setattr(done, name, found.lines[name])
    _discover(target, in_scope, done)
    kept.update(in_scope)
    text = [*(f"{MARK}{mark}" for mark in marks), *(f"{url} {number}" for url, number in sorted(kept.items()))]
    write_atomically(path, ("\n".join(text) + "\n").encode())
    return done


def _discover(target: Target, urls: dict[str, int], done: TakenIn) -> None:
    """Let pages wait that were not known."""
    waiting = iter(urls)
    while batch := list(islice(waiting, BATCH)):
        seeds = [_found(url) for url in batch]
        done.urls_new += target.committer.commit(Group(seeds=seeds)).new_urls


def _found(url: str) -> Found:
    host = split(url).host
    return Found(host, key_of(url), tail_of(url, host), DEPTH, in_links=0, by=BY_SIGNAL)


def _recognised(path: Path) -> Format:
    with disk_errors(path, "read"), opened(path) as log:
        form = format_of(islice(lines_of(log, Counter()), LOOKED_AT))
    if form is None:
        raise UsageError(f"{path}: neither a Squid log nor a combined or common one; --format says which it is")
    return form


def _mark_of(path: Path) -> str:
    with disk_errors(path, "read"), path.open("rb") as file:
        digest = sha256(file.read(_BEGINNING)).hexdigest()[:16]
        return f"{path.stat().st_size} {digest} {path.name}".replace("\n", " ")
