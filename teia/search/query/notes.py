"""Notes for a user about their query: one line each, in English and Portuguese.

A note is never a refusal: the text it mentions was read in some other way, and the note says which. Details come
from the query, so they are cut and made printable before they are shown or logged.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

Language = Literal["en", "pt"]
MAX_NOTES = 16
MAX_DETAIL_CHARS = 60


class NoteKind(Enum):
    """Kinds of notes; `{}` is the detail."""

    TEXT_CUT = ("Only the first 65,536 characters were read", "Só os primeiros 65.536 caracteres foram lidos")
    QUOTE_OPEN = (
        "The quote at character {} is never closed; searched for its words instead",
        "As aspas no caractere {} não se fecham; as palavras foram procuradas soltas",
    )
    PARENTHESIS_OPEN = (
        "The parenthesis at character {} is never closed and was ignored",
        "O parêntese no caractere {} não se fecha e foi ignorado",
    )
    PARENTHESIS_CLOSED = (
        "The parenthesis at character {} was never opened and was ignored",
        "O parêntese no caractere {} não foi aberto e foi ignorado",
    )
    TOO_DEEP = (
        "Parentheses may be nested 8 levels deep; deeper parts were ignored",
        "Parênteses podem ter 8 níveis; as partes mais fundas foram ignoradas",
    )
    CONDITIONS = (
        "More than 32 conditions: the first 32 were used",
        "Mais de 32 condições: as primeiras 32 foram usadas",
    )
    CANDIDATES = (
        "More than 1,024 different words: the first 1,024 were used",
        "Mais de 1.024 palavras diferentes: as primeiras 1.024 foram usadas",
    )
    TERMS = (
        "More than 32 words: the 32 most specific ones were used",
        "Mais de 32 palavras: foram usadas as 32 mais específicas",
    )
    PHRASE_LONG = (
        "A phrase may have 16 words; the remaining words were ignored",
        "Uma frase pode ter 16 palavras; as demais foram ignoradas",
    )
    WORD_LONG = (
        "{} is too long to be in the index and was ignored",
        "{} é longa demais para estar no índice e foi ignorada",
    )
    PREFIX_SHORT = (
        "{} needs at least 2 letters before the *; searched for the word as it is",
        "{} precisa de ao menos 2 letras antes do *; a palavra foi procurada como está",
    )
    WILDCARD = (
        "A * works only at the end of a word; {} was searched without it",
        "O * só vale no fim de uma palavra; {} foi procurado sem ele",
    )
    PREFIXES = (
        "More than 8 words with *: {} was searched without it",
        "Mais de 8 palavras com *: {} foi procurado sem ele",
    )
    FILTER_UNKNOWN = (
        "Unknown filter {}; searched for its words",
        "Filtro desconhecido: {}; suas palavras foram procuradas",
    )
    FILTER_EMPTY = (
        "{} needs its value right after the colon; searched for the word",
        "{} precisa do valor logo depois dos dois-pontos; a palavra foi procurada",
    )
    BAD_HOST = (
        "{} is not a host name; searched for its words",
        "{} não é nome de servidor; suas palavras foram procuradas",
    )
    HOST_PATH = (
        "{} was treated as its host only: paths cannot be searched",
        "{} foi tratado só pelo servidor: não se procura dentro de um caminho",
    )
    BAD_LANG = (
        "{} is not a language: write lang:pt or lang:en; searched for its words",
        "{} não é um idioma: escreva lang:pt ou lang:en; suas palavras foram procuradas",
    )
    BAD_TYPE = (
        "{} is not a known type: write type:html, type:pdf or type:text/csv; searched for its words",
        "{} não é um tipo conhecido: escreva type:html, type:pdf ou type:text/csv; suas palavras foram procuradas",
    )
    BAD_LINK = (
        "{} is not a web address; searched for its words",
        "{} não é um endereço da web; suas palavras foram procuradas",
    )
    BAD_TITLE = ("{} has no words to search for", "{} não tem palavras para procurar")
    BAD_DATE = (
        "{} is not a date: write 2026, 2026-03, 2026-03-05 or 7d; searched for its words",
        "{} não é uma data: escreva 2026, 2026-03, 2026-03-05 ou 7d; suas palavras foram procuradas",
    )
    BAD_EXPAND = (
        "{} must be expand:on or expand:off; searched for its words",
        "{} precisa ser expand:on ou expand:off; suas palavras foram procuradas",
    )
    GIVEN_TWICE = (
        "{} was given more than once; the last one applies",
        "{} foi informado mais de uma vez; vale o último",
    )
    FILTER_IN_OR = (
        "{} applies to the whole query; OR and parentheses do not limit it",
        "{} vale para a consulta inteira; OR e parênteses não o limitam",
    )
    NOT_EXPANDED = (
        "Only plain words are expanded: this query has +, -, * or quotes",
        "Só palavras simples são expandidas: esta consulta tem +, -, * ou aspas",
    )
    ONLY_NEGATIVE = (
        "The query contains only exclusions; add a word or a filter to search for",
        "A consulta só tem exclusões; acrescente uma palavra ou um filtro a procurar",
    )
    EMPTY = ("There is no word to search for", "Não há palavra a procurar")

    @property
    def english(self) -> str:
        return self.value[0]

    @property
    def portuguese(self) -> str:
        return self.value[1]


@dataclass(frozen=True, slots=True)
class QueryNote:
    """One part of a query that was not read as it was typed."""

    kind: NoteKind
    detail: str = ""

    def text(self, language: Language = "en") -> str:
        template = self.kind.portuguese if language == "pt" else self.kind.english
        return template.replace("{}", self.detail)


class QueryNotes:
    """Notes under construction: each once, and no more than a user would read."""

    def __init__(self) -> None:
        self._notes: dict[QueryNote, None] = {}

    def add(self, kind: NoteKind, detail: str | int = "") -> None:
        if len(self._notes) < MAX_NOTES:
            self._notes[QueryNote(kind, printable(str(detail)))] = None

    def all(self) -> tuple[QueryNote, ...]:
        return tuple(self._notes)


def printable(text: str) -> str:
    """Return a part of a query in printable form: one line, not long, no control characters."""
    cut = text if len(text) <= MAX_DETAIL_CHARS else text[: MAX_DETAIL_CHARS - 1] + "…"
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in cut)
