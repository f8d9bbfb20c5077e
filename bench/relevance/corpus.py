"""The judged pages, read from Debian's documentation packages.

A document's id is the path at which `bench.peers.site` would serve it: the name of a tree, then the path below it. Only
ids, languages and digests are in the repository. Packages are corrected now and then: a page whose digest differs from
the one in `documents.tsv` is used and counted, a page that is gone stops the run.

The set `manuals` has no `documents.tsv`: all pages of its trees belong to it. `scripts/relevance` unpacks its packages
below `.cache/manuals`, because one of them would install an office suite.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from teia.errors import MissingComponent
from teia.parse.parse import parse_document
from teia.records import Page

FOLDER = Path(__file__).resolve().parent
HOST = "documentation.example"
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
_SHARE = Path("/usr/share")

UNPACKED = FOLDER.parents[1] / ".cache/manuals"


@dataclass(frozen=True, slots=True)
class JudgedSet:
    """A judged set: the folder of its queries and grades, its trees of pages, and the packages that hold them.

    `languages` are those of the trees, where the set has no list of documents. `unwanted` are pages of them that are in
    another language, which is how Debian fills the gaps of a translation.
    """

    folder: Path
    trees: Mapping[str, Path]
    packages: tuple[str, ...]
    languages: Mapping[str, str] = field(default_factory=dict)
    unwanted: frozenset[str] = frozenset()


DEBIAN = JudgedSet(
    FOLDER,
    {
        "apt": _SHARE / "doc/apt-doc",
        "faq": _SHARE / "doc/debian/FAQ",
        "focalinux": _SHARE / "doc/focalinux/html",
        "handbook": _SHARE / "doc/debian-handbook/html",
        "harden": _SHARE / "doc/harden-doc/html",
        "install": _SHARE / "doc/installation-guide-amd64",
        "reference": _SHARE / "debian-reference",
    },
    (
        "apt-doc", "debian-faq", "debian-faq-pt", "debian-handbook", "debian-reference-en", "debian-reference-pt",
        "focalinux-html", "harden-doc", "installation-guide-amd64",
    ),
)  # fmt: skip
MANUALS = JudgedSet(
    FOLDER / "manuals",
    {
        "apache": UNPACKED / "usr/share/doc/apache2-doc/manual/en",
        "git": UNPACKED / "usr/share/doc/git-doc",
        "libreoffice": UNPACKED / "usr/share/libreoffice/help/pt-BR/text",
        "postgresql": UNPACKED / "usr/share/doc/postgresql-doc-15/html",
    },
    ("apache2-doc", "git-doc", "libreoffice-help-pt-br", "postgresql-doc-15"),
    {"apache": "en", "git": "en", "libreoffice": "pt", "postgresql": "en"},
    frozenset(
        f"apache/{page}.html" for page in ("bind", "filter", "install", "invoking", "new_features_2_4", "upgrading")
    ),
)
SETS: Mapping[str, JudgedSet] = {"debian": DEBIAN, "manuals": MANUALS}


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


def entries(judged: JudgedSet = DEBIAN) -> list[Entry]:
    """Return the pages of a set: those of its list, or all pages of its trees."""
    if judged.languages:
        return list(_all_pages(judged))
    with (judged.folder / "documents.tsv").open(encoding="utf-8", newline="") as lines:
        return [Entry(row["id"], row["language"], row["digest"]) for row in csv.DictReader(lines, delimiter="\t")]


def _all_pages(judged: JudgedSet) -> Iterator[Entry]:
    for tree, folder in judged.trees.items():
        for file in sorted(folder.rglob("*.html")):
            name = f"{tree}/{file.relative_to(folder)}"
            # Some names of a page are links to its file.
            if name not in judged.unwanted and not file.is_symlink():
                yield Entry(name, judged.languages[tree], "")


def collect(wanted: list[Entry] | None = None, judged: JudgedSet = DEBIAN) -> list[Document]:
    """Read every page of the set; raise `MissingComponent` where one is not installed."""
    wanted = entries(judged) if wanted is None else wanted
    files = {entry.id: file_of(entry.id, judged.trees) for entry in wanted}
    gone = [document for document, file in files.items() if not file.is_file()]
    if gone or not files:
        raise MissingComponent(
            f"{len(gone)} of {len(files)} judged pages are not installed ({', '.join(gone[:1])} …): scripts/relevance, "
            f"or apt-get install {' '.join(judged.packages)}"
        )
    return [_document(entry, files[entry.id]) for entry in wanted]


def file_of(document: str, trees: Mapping[str, Path]) -> Path:
    tree, _, path = document.partition("/")
    return trees[tree] / path


def _document(entry: Entry, file: Path) -> Document:
    body = file.read_bytes()
    page = parse_document(f"http://{HOST}/{entry.id}", _HEAD, body).page
    return Document(entry.id, entry.language, page, bool(entry.digest) and digest_of(body) != entry.digest)


def digest_of(body: bytes) -> str:
    """Return sixteen hex digits, enough to notice that a file is another one."""
    return sha256(body).hexdigest()[:16]
