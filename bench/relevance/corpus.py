"""The judged pages, read from Debian's documentation packages.

A document's id is the path at which `bench.peers.site` would serve it: the name of a tree, then the path below it. Only
ids, languages and digests are in the repository. Packages are corrected now and then: a page whose digest differs from
the one in `documents.tsv` is used and counted, a page that is gone stops the run.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from teia.errors import MissingComponent
from teia.parse.parse import parse_document
from teia.records import Page

FOLDER = Path(__file__).resolve().parent
HOST = "documentation.example"
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
_SHARE = Path("/usr/share")

TREES: Mapping[str, Path] = {
    "apt": _SHARE / "doc/apt-doc",
    "faq": _SHARE / "doc/debian/FAQ",
    "focalinux": _SHARE / "doc/focalinux/html",
    "handbook": _SHARE / "doc/debian-handbook/html",
    "harden": _SHARE / "doc/harden-doc/html",
    "install": _SHARE / "doc/installation-guide-amd64",
    "reference": _SHARE / "debian-reference",
}
PACKAGES = (
    "apt-doc", "debian-faq", "debian-faq-pt", "debian-handbook", "debian-reference-en", "debian-reference-pt",
    "focalinux-html", "harden-doc", "installation-guide-amd64",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of `documents.tsv`."""

    id: str
    language: str
    digest: str


@dataclass(frozen=True, slots=True)
class Document:
    """A page of the set. `language` is that of its edition; `page` is the result of teia's parser.

    `has_changed` is true if the file is not the one that was judged.
    """

    id: str
    language: str
    page: Page
    has_changed: bool = False


def entries(path: Path = FOLDER / "documents.tsv") -> list[Entry]:
    with path.open(encoding="utf-8", newline="") as lines:
        return [Entry(row["id"], row["language"], row["digest"]) for row in csv.DictReader(lines, delimiter="\t")]


def collect(wanted: list[Entry] | None = None, trees: Mapping[str, Path] = TREES) -> list[Document]:
    """Read every page of the set; raise `MissingComponent` where one is not installed."""
    wanted = entries() if wanted is None else wanted
    files = {entry.id: file_of(entry.id, trees) for entry in wanted}
    gone = [document for document, file in files.items() if not file.is_file()]
    if gone:
        raise MissingComponent(
            f"{len(gone)} of {len(files)} judged pages are not installed ({gone[0]} …): scripts/relevance, "
            f"or apt-get install {' '.join(PACKAGES)}"
        )
    return [_document(entry, files[entry.id]) for entry in wanted]


def file_of(document: str, trees: Mapping[str, Path] = TREES) -> Path:
    tree, _, path = document.partition("/")
    return trees[tree] / path


def _document(entry: Entry, file: Path) -> Document:
    body = file.read_bytes()
    page = parse_document(f"http://{HOST}/{entry.id}", _HEAD, body).page
    return Document(entry.id, entry.language, page, digest_of(body) != entry.digest)


def digest_of(body: bytes) -> str:
    """Return sixteen hex digits, enough to notice that a file is another one."""
    return sha256(body).hexdigest()[:16]
