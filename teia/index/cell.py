"""The index of one cell: a tantivy folder that follows the cell's pages.

Everything in it is derived: it can be thrown away and made again from the archive (`teia rebuild index`). A page that
changes is deleted and added in the same commit, so a searcher sees the one or the other. `position` is the place that
the last commit reached in the cell's list of changes. It is written after the commit, so after a crash some changes are
repeated, which has no effect.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import tantivy
import xxhash

from teia.durable import disk_errors
from teia.errors import StoreError
from teia.index.entry import IndexEntry, PackedEntry
from teia.index.page_texts import PageTexts, shared_texts
from teia.index.position import META_FILE, read_position, remove_unfinished, write_position
from teia.index.schema import GAP, ROOT, analysers, make_schema
from teia.index.stems import shared_words
from teia.index.text_holders import FEW_CHARS, TextHolders, pack_without_text, whole_entry

HEAP_BYTES = 32 << 20
# The mean Gregorian year, 365.2425 days: within a day of New Year the year may be the neighbour.
SECONDS_A_YEAR = 31_556_952
logger = logging.getLogger(__name__)


class CellIndex:
    """One cell's index, open for writing by at most one process, for reading by any."""

    def __init__(self, folder: Path, *, heap_bytes: int = HEAP_BYTES) -> None:
        self.folder = folder
        self.schema = make_schema()
        self._heap_bytes = heap_bytes
        self._writer: tantivy.IndexWriter | None = None
        self._index = self._open()
        self._committed: tantivy.Searcher | None = None
        self._uncommitted_keys = set[int]()
        """Pages that were put or removed since the last commit."""
        self._holders = TextHolders()
        self._uncommitted_holders = set[int]()
        """Pages to which pages refer that are not committed yet."""

    def _open(self) -> tantivy.Index:
        with disk_errors(self.folder, "opened"):
            # No position of this schema version: what is here cannot be continued, and is made again from change 0.
            if read_position(self.folder) is None:
                if (self.folder / META_FILE).exists():
                    logger.warning("%s has the format of another version; it is rebuilt from the archive", self.folder)
                shutil.rmtree(self.folder, ignore_errors=True)
                self.folder.mkdir(parents=True)
                write_position(self.folder, 0)
            remove_unfinished(self.folder)
        try:
            index = tantivy.Index(self.schema, path=str(self.folder))
        except (ValueError, OSError) as error:
            raise StoreError(
                f"{self.folder}: the index cannot be opened ({error}); rebuild it with `teia rebuild index`"
            ) from error
        for name, each in analysers().items():
            index.register_tokenizer(name, each)
        return index

    @property
    def position(self) -> int:
        return read_position(self.folder) or 0

    @property
    def writer(self) -> tantivy.IndexWriter:
        if self._writer is None:
            with self._errors("written"):
                self._writer = self._index.writer(heap_size=self._heap_bytes, num_threads=1)
        return self._writer

    @contextlib.contextmanager
    def _errors(self, action: str) -> Iterator[None]:
        """Translate any error of tantivy into a StoreError about the index."""
        try:
            yield
        except ValueError as error:
            raise StoreError(f"{self.folder}: the index cannot be {action}: {error}") from error

    def put(self, entry: IndexEntry, anchors: Iterable[str] = ()) -> None:
        """Add a page, or replace it. `anchors` are the texts of links to it."""
        self.put_page(PackedEntry(entry), shared_texts().of(entry), anchor_words(anchors))

    def put_page(self, page: PackedEntry, texts: PageTexts, words: str) -> None:
        """Add a page, or replace it; `words` are those on links to it (`anchor_words`)."""
        key = page.entry.key
        self._delete(key, is_same_text=self._holders.holds(key, texts.number))
        holder = None
        if len(page.entry.text) >= FEW_CHARS:
            holder = self._holders.choose(key, texts.number)
        if holder is not None:
            self._uncommitted_holders.add(holder)
        writer = self.writer
        with self._errors("written"):
            writer.add_document(make_document(page, texts, words, holder))
        self._uncommitted_keys.add(key)

    def remove(self, key: int) -> None:
        """Remove a page, if it is there."""
        self._delete(key)

    def _delete(self, key: int, *, is_same_text: bool = False) -> None:
        """Delete a page if it is there: for a deletion tantivy later looks into every segment.

        Pages that refer to its text get it first, unless the page `is_same_text` again.
        """
        writer, committed = self.writer, self._last_commit()
        with self._errors("written"):
            if key not in self._uncommitted_keys and not committed.doc_freq("key", key):
                return
            if not is_same_text:
                self._give_text_away(key)
            writer.delete_documents_by_term("key", key)
        self._uncommitted_keys.add(key)

    def _give_text_away(self, key: int) -> None:
        """Store the text of a page with the pages that refer to it."""
        self._holders.forget(key)
        if key in self._uncommitted_holders:
            # Only committed documents can be read. The position stays, so after a crash the changes are repeated.
            self.writer.commit()
            self._note_commit()
        searcher = self._last_commit()
        if not searcher.doc_freq("text_of", key):
            return
        query = tantivy.Query.term_query(self.schema, "text_of", key)
        hits = searcher.search(query, limit=max(1, searcher.num_docs), count=False).hits
        referring = [(whole_entry(searcher, address), searcher.doc(address)["words"]) for _, address in hits]
        for page, words in referring:
            if page.entry.key not in self._uncommitted_keys:  # else it was removed, or put with another text
                self.put_page(page, shared_texts().of(page.entry), bytes(words[0]).decode())

    def _last_commit(self) -> tantivy.Searcher:
        if self._committed is None:
            self._committed = self.searcher()
        return self._committed

    def _note_commit(self) -> None:
        self._committed = None
        self._uncommitted_keys.clear()
        self._uncommitted_holders.clear()

    def commit(self, position: int) -> None:
        """Make everything since the last commit visible, and store the position."""
        with disk_errors(self.folder, "written"):
            writer = self.writer
            with self._errors("written"):
                writer.commit()
            self._note_commit()
            write_position(self.folder, position)

    def searcher(self) -> tantivy.Searcher:
        """Return a view of the last commit."""
        with self._errors("read"):
            self._index.reload()
            return self._index.searcher()

    def entry(self, searcher: tantivy.Searcher, address: tantivy.DocAddress) -> IndexEntry:
        """Return the page behind a hit."""
        return whole_entry(searcher, address).entry

    def entries(self, keys: Sequence[int]) -> list[PackedEntry]:
        """Return pages of the last commit by their keys; missing ones are left out."""
        searcher = self.searcher()
        query = tantivy.Query.term_set_query(self.schema, "key", list(keys))
        hits = searcher.search(query, limit=len(keys), count=False).hits if keys else []
        return [whole_entry(searcher, address) for _, address in hits]

    def keys(self) -> set[int]:
        """Return the keys of all pages of the last commit."""
        searcher = self.searcher()
        found = searcher.search(tantivy.Query.all_query(), limit=max(1, searcher.num_docs), count=False).hits
        keys: Iterable[Any] = searcher.fast_field_values("key", [address for _, address in found])
        return set(keys)

    def close(self) -> None:
        """Close the writer, waiting for merges; uncommitted changes are lost."""
        if self._writer is not None:
            with contextlib.suppress(ValueError):  # the folder is gone, and nothing can be rolled back
                self._writer.rollback()
                self._writer.wait_merging_threads()
            self._writer = None


def make_document(page: PackedEntry, texts: PageTexts, words: str, text_of: int | None = None) -> tantivy.Document:
    """Return tantivy's document of a page; `words` are those on links to it (`anchor_words`).

    `text_of` is the page that holds its text, if that is another one.
    """
    document, entry = tantivy.Document(), page.entry
    document.add_integer("key", entry.key)
    document.add_text("all", texts.all)
    document.add_text("exact", texts.exact)
    document.add_text("head", texts.head)
    document.add_text("title", texts.title)
    document.add_text("anchor", words)
    document.add_text("host", entry.host)
    for name in parent_names(entry.host):
        document.add_text("within", name)
    document.add_text("lang", entry.language)
    document.add_text("type", entry.media_type)
    if text_of is None:
        document.add_bytes("entry", page.packed)
    else:
        document.add_bytes("entry", pack_without_text(entry))
        document.add_integer("text_of", text_of)
        document.add_bytes("words", words.encode())
    for link in entry.links:
        document.add_integer("links", link.key)
    # `date_s` is never empty in the index: filters and the order by date need a value.
    dated_s = entry.date_s or entry.visited_s
    document.add_integer("date_s", dated_s)
    document.add_integer("visited_s", entry.visited_s)
    document.add_integer("year", 1970 + dated_s // SECONDS_A_YEAR)
    document.add_integer("text_digest", entry.text_digest)
    document.add_integer("simhash", entry.simhash)
    document.add_integer("languages", texts.languages)
    return document


def anchor_words(texts: Iterable[str]) -> str:
    """Return the words of anchor texts as the index takes them: stems, each repeated by its votes.

    Votes are rounded down to a power of four. So a page need not be indexed again for every vote, and its words do not
    depend on the order in which texts came.
    """
    votes = Counter(shared_words().of(" ".join(texts))[0].split())
    del votes[GAP]
    return " ".join(stem for stem in sorted(votes) for _ in range(1 << (votes[stem].bit_length() - 1) // 2 * 2))


def number_of_words(words: str) -> int:
    """Return a number that differs for other words."""
    number: int = xxhash.xxh3_64_intdigest(words.encode())
    return number >> 1  # SQLite integers are signed


def parent_names(host: str) -> list[str]:
    """Return a host and every name above it: `a.b.org`, `b.org`, `org`, the root. Above an address is only the root."""
    if host.startswith("[") or host.replace(".", "").isdigit():
        return [host, ROOT]
    labels = host.split(".")
    return [*(".".join(labels[at:]) for at in range(len(labels))), ROOT]
