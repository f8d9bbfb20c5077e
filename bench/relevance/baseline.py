"""Stemmed, folded BM25 over one text field: the baseline to beat, made by tantivy with its own constants.

The one field is title, headings and body, stemmed for the page's language. So the index has one such field for each
language, and a page fills one of them. A query is analysed once for each language and searches all fields: three words
are too few to guess their language. Pages with equal scores come in the order of their ids, so runs are reproducible.
"""

from __future__ import annotations

from collections.abc import Sequence

import tantivy

from bench.relevance.analysis import LANGUAGES, stems
from bench.relevance.corpus import Document

WRITER_BYTES = 64 << 20


class Baseline:
    """An index in memory; `search` is the ranking."""

    def __init__(self, documents: Sequence[Document]) -> None:
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("id", stored=True, tokenizer_name="raw", index_option="basic")
        for language in LANGUAGES:
            builder.add_text_field(f"all_{language}", tokenizer_name=f"stems_{language}")
        self._schema = builder.build()
        self._index = tantivy.Index(self._schema)
        self._analysers = {language: stems(language) for language in LANGUAGES}
        for language, analyser in self._analysers.items():
            self._index.register_tokenizer(f"stems_{language}", analyser)
        self._write(documents)
        self._searcher = self._index.searcher()

    def _write(self, documents: Sequence[Document]) -> None:
        """Write with one thread and one commit: one segment, and one set of statistics."""
        writer = self._index.writer(WRITER_BYTES, 1)
        for document in sorted(documents, key=lambda each: each.id):
            writer.add_document(
                tantivy.Document(**{"id": document.id, f"all_{document.language}": searchable_text(document)})
            )
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()

    def search(self, query: str, n: int) -> list[str]:
        clauses = [
            (tantivy.Occur.Should, tantivy.Query.term_query(self._schema, f"all_{language}", term))
            for language, analyser in self._analysers.items()
            for term in analyser.analyze(query)
        ]
        if not clauses:
            return []
        found = self._searcher.search(tantivy.Query.boolean_query(clauses), n).hits
        scored = [(score, self._searcher.doc(address)["id"][0]) for score, address in found]
        return [document for _, document in sorted(scored, key=lambda each: (-each[0], each[1]))]


def searchable_text(document: Document) -> str:
    page = document.page
    return "\n".join([page.title, *page.headings, page.text])
