"""Web pages that this process has read lately: the same body at another URL is not scanned again.

In the folder of each language a site may have the same page, where nobody translated it. Text, title, headings and
metadata are the same at every URL; only links are resolved anew. So a document takes over what an earlier one with the
same body has found (`Document.share`).
"""

from __future__ import annotations

from collections import OrderedDict

from teia.parse.document import Document

MEMORY_BYTES = 24 << 20
"""Bytes of documents in memory, at most: some 200 pages."""

ELEMENT_BYTES, DOCUMENT_BYTES = 400, 28_000
"""Memory that a link takes, and a page beside its payload, its text and its links; measured by resident sets."""


class RecentDocuments:
    """Recent documents by the digests of their payloads; those that were not used for longest go first."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._memory_bytes = memory_bytes
        self._documents: OrderedDict[str, tuple[Document, int]] = OrderedDict()
        self._bytes = 0

    def find(self, digest: str) -> Document | None:
        found = self._documents.get(digest)
        if found is None:
            return None
        self._documents.move_to_end(digest)
        return found[0]

    def add(self, digest: str, document: Document) -> None:
        """Remember a page that was scanned; a tree takes too much memory."""
        if digest in self._documents or not document.is_scanned or document.content is None:
            return
        # The scanner holds the text as octets beside the one that was made of them.
        size = DOCUMENT_BYTES + len(document.payload) + 2 * len(document.content.text)
        size += ELEMENT_BYTES * len(document.extract.elements)
        self._documents[digest] = document, size
        self._bytes += size
        while self._bytes > self._memory_bytes:
            self._bytes -= self._documents.popitem(last=False)[1][1]
