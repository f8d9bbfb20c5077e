"""The pages of ten documentation packages of Debian, indexed by the product's code, a host for each package."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from teia.clock import WallClock
from teia.crawler.child.index_entry import entry_of
from teia.errors import MissingComponent
from teia.index.cell import CellIndex
from teia.index.entry import IndexEntry
from teia.index.repeated import FILE, Lines, RepeatedLinesReader, RepeatedLinesWriter
from teia.index.union import UnionReader
from teia.parse.parse import parse_document
from teia.search.serve.searcher import Searcher
from teia.search.serve.shards import LocalShard
from teia.search.show.results import Facts

_DOC = "usr/share/doc"
TREES: Mapping[str, Sequence[str]] = {
    "python3.11-doc": (f"{_DOC}/python3.11/html",),
    "apache2-doc": (f"{_DOC}/apache2-doc/manual/en", f"{_DOC}/apache2-doc/manual/pt-br"),
    "debian-handbook": (f"{_DOC}/debian-handbook/html/en-US", f"{_DOC}/debian-handbook/html/pt-BR"),
    "postgresql-doc-15": (f"{_DOC}/postgresql-doc-15/html",),
    "git-doc": (f"{_DOC}/git-doc",),
    "debian-policy": (f"{_DOC}/debian-policy",),
    "debian-reference-en": ("usr/share/debian-reference",),
    "sqlite3-doc": (f"{_DOC}/sqlite3",),
    "installation-guide-amd64": (f"{_DOC}/installation-guide-amd64/en", f"{_DOC}/installation-guide-amd64/pt"),
    "python-django-doc": (f"{_DOC}/python-django-doc/html",),
}
VISITED_S = 1_700_000_000.0
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"


class Documents:
    """The index of the packages below some roots, in a folder; it is made once and then only opened."""

    def __init__(self, folder: Path, roots: Sequence[Path]) -> None:
        if not (folder / "meta.json").exists():
            _index(folder, roots)
        self._lines = RepeatedLinesReader(folder / FILE)
        self.searcher = Searcher(
            [LocalShard("documentation", UnionReader({"documentation": folder}))],
            WallClock(),
            facts=self,
            deadline_s=60,
        )

    def facts(self, _: Mapping[int, str], /) -> Mapping[int, Facts]:
        return {}

    def repeated_lines(self, hosts: Sequence[str], /) -> Mapping[str, Lines]:
        return {host: self._lines.of(host) for host in hosts}


def _index(folder: Path, roots: Sequence[Path]) -> None:
    index = CellIndex(folder)
    with closing(RepeatedLinesWriter(folder / FILE)) as repeated, closing(index):
        pages = 0
        for package, trees in TREES.items():
            before = pages
            for entry in _entries(package, trees, roots):
                index.put(entry)
                repeated.add(entry)
                pages += 1
            if pages == before:
                raise MissingComponent(f"{package} is not installed: scripts/answers, or apt-get install {package}")
        repeated.flush()
        index.commit(pages)


def _entries(package: str, trees: Sequence[str], roots: Sequence[Path]) -> Iterator[IndexEntry]:
    for tree in trees:
        top = next((root / tree for root in roots if (root / tree).is_dir()), None)
        for file in sorted(top.rglob("*.html*")) if top is not None else ():
            if file.is_file() and file.name.endswith((".html", ".html.gz")):
                body = file.read_bytes() if file.suffix == ".html" else gzip.decompress(file.read_bytes())
                url = f"http://{package}.example/{tree.rpartition('/')[2]}/{file.relative_to(top)}".removesuffix(".gz")
                entry = entry_of(parse_document(url, _HEAD, body).page, VISITED_S, obeys=True)
                if entry is not None:
                    yield entry
