"""Messages for a user about an answer, beside the notes about the query (notes.py): English and Portuguese."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from teia.search.query.notes import Language


class MessageKind(Enum):
    """Kinds of messages; each `{}` is one of the details."""

    CELLS_MISSING = (
        "{} of {} cells responded. Missing: {}",
        "{} de {} células responderam. Faltam: {}",
    )
    TOO_DEEP = (
        "Results are shown down to the 1,000th; add a word or a filter to see others",
        "Os resultados são mostrados até o 1.000º; acrescente uma palavra ou um filtro para ver outros",
    )
    TOO_MANY = (
        "At most {} results are shown at once",
        "No máximo {} resultados são mostrados de uma vez",
    )
    EXACT_CHECKED = (
        "Exact spelling was checked in the first {} of {} results",
        "A grafia exata foi verificada nos primeiros {} de {} resultados",
    )
    NOT_INDEXED = (
        "{} is not in the index",
        "{} não está no índice",
    )
    INDEXING = (
        "{} crawled pages are not indexed yet and cannot be found; they are being added",
        "{} páginas coletadas ainda não foram indexadas e não podem ser encontradas; estão sendo acrescentadas",
    )
    UNINDEXED = (
        "{} crawled pages are not indexed and cannot be found; the next crawl adds them, or `teia rebuild index`",
        "{} páginas coletadas não foram indexadas e não podem ser encontradas; a próxima coleta as acrescenta, ou"
        " `teia rebuild index`",
    )
    UNREADABLE = (
        "{} pages cannot be found because their captures cannot be read",
        "{} páginas não podem ser encontradas porque suas capturas não podem ser lidas",
    )
    NO_PAGES = (
        "There are no pages in the index yet",
        "Ainda não há páginas no índice",
    )


@dataclass(frozen=True, slots=True)
class SearchMessage:
    """One message, with its details."""

    kind: MessageKind
    details: tuple[str, ...] = ()

    def text(self, language: Language = "en") -> str:
        text: str = self.kind.value[1 if language == "pt" else 0]
        for detail in self.details:
            text = text.replace("{}", detail, 1)
        return text
