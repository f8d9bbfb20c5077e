"""Sentences of other modules in the reader's language: they are still written so, and whole sentences come out."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import teia
from teia.web.access.roles import Role
from teia.web.language.phrases import phrases
from teia.web.server.templates import phrases_for
from tests.web.conftest import Web

FOREIGN = ("Input should", "String should", "Field required", "Not Found", "Method Not Allowed", "Mon", "Tue", "Wed")
FOREIGN += ("Thu", "Fri", "Sat", "Sun")
"""What libraries say: pydantic, starlette, strftime."""


def written() -> str:
    """Every text in the sources, those in pieces put together."""
    found = []
    for path in Path(teia.__file__).parent.rglob("*.py"):
        if path.name != "phrases.py":
            found += [_text(node) for node in ast.walk(ast.parse(path.read_text("utf-8")))]
    return "\n".join(filter(None, found))


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(each) if isinstance(each, ast.Constant) else "\x00" for each in node.values)
    return ""


@pytest.mark.heavy
def test_every_phrase_is_still_said_by_somebody() -> None:
    said = written()
    gone = []
    for phrase in phrases(lambda text: text):
        pieces = [piece for piece in re.split(r"\{\w+\}", phrase) if len(piece.strip(" .;:,()")) >= 3]
        if not phrase.startswith(FOREIGN) and not all(_is_in(piece, said) for piece in pieces):
            gone.append(phrase)
    assert gone == []


def _is_in(piece: str, said: str) -> bool:
    """Whether a piece is there: in one, or put together of two where a condition chooses the second."""
    whole = piece.strip(" .;:,()`")
    halves = ((whole[:at].strip(" :"), whole[at:].strip(" `")) for at, char in enumerate(whole) if char == " ")
    return whole in said or any(a in said and b in said for a, b in halves if len(a) > 6)


@pytest.mark.parametrize(
    ("english", "portuguese"),
    [
        ("delay of its host until 2026-11-15T12:00:00Z; queued behind 1,204 URLs of its host",
         "intervalo do seu servidor até 2026-11-15T12:00:00Z; na fila atrás de 1.204 URLs do seu servidor"),
        ("it is out of scope: regex:/a excludes it; it will not be fetched",
         "está fora do escopo: regex:/a a exclui; não será visitada"),
        ("failed 3 times (timeout), next attempt at 12:00", "falhou 3 vezes (timeout), próxima tentativa em 12:00"),
        ("scope rule 'host:!': must be a host name, such as example.org",
         "regra de escopo 'host:!': precisa ser um nome de servidor, como example.org"),
        ("Every 7 days at 02:00 (America/Sao_Paulo) from Saturday 21 Nov 2026 on, 4 hours at most, until 5 Dec 2026.",
         "A cada 7 dias às 02:00 (America/Sao_Paulo) desde sábado 21 nov. 2026, 4 horas no máximo, até 5 dez. 2026."),
        ("10,001 seeds exceed the maximum of 10,000", "10.001 sementes passam do máximo de 10.000"),
        ("at most 1,048,576 bytes are accepted", "no máximo 1.048.576 bytes são aceitos"),
        ("the query took longer than 0.5 s; narrow it, e.g. with WHERE host = …",
         "a consulta passou de 0,5 s; restrinja-a, p. ex. com WHERE host = …"),
        ("courtesy.delay_s = -1.5: must be at least 0.05 s", "courtesy.delay_s = -1.5: precisa ser pelo menos 0,05 s"),
        ("robots.txt asks for a Crawl-delay of 1,204.5 s", "o robots.txt pede um Crawl-delay de 1.204,5 s"),
        ("Sat 21 Nov 2026 02:00 (UTC)", "sáb. 21 nov. 2026 02:00 (UTC)"),
        ("this requires the role operator; your role is viewer", "isto exige o papel operador; o seu é leitor"),
        ("n: Input should be greater than or equal to 1", "n: precisa ser pelo menos 1"),
        ("http://x.test/a is not known in main: no fetched page links to it; did you mean http://x.test/b",
         "http://x.test/a não é conhecida em main: nenhuma página coletada aponta para ela; você quis dizer http://x.test/b"),
    ],
)  # fmt: skip
def test_what_is_said_in_english_is_said_in_portuguese(english: str, portuguese: str) -> None:
    phrases = phrases_for("pt-BR")
    assert phrases is not None
    assert phrases.translate(english) == portuguese


@pytest.mark.parametrize("text", ["", "etwas ganz anderes", "{why}", "\\1 {n}", "a; b", "(" * 3_000, "x: " * 3_000])
def test_what_nobody_knows_stays_as_it_is(text: str) -> None:
    phrases = phrases_for("pt-BR")
    assert phrases is not None
    assert text in (phrases.translate(text) or text) or len(text) > 2_000
    assert phrases_for("en") is None


def test_english_that_has_no_translation_is_marked_as_english(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object) -> None:
        raise teia.errors.UsageError("something <b>nobody</b> foresaw")

    monkeypatch.setattr("teia.web.server.installation.Installation.config", wrong)
    portuguese = {"accept-language": "pt"}
    page = web.client(Role.VIEWER).get("/c/main/freshness", headers=portuguese)
    assert '<span lang="en">something &lt;b&gt;nobody&lt;/b&gt; foresaw</span>' in page.text
    assert 'lang="en">something' not in web.client(Role.VIEWER).get("/c/main/freshness").text
    twin = web.client(Role.VIEWER).get("/api/v1/c/main/freshness", headers=portuguese).json()
    assert twin["message"] == "something <b>nobody</b> foresaw"


def test_no_translation_writes_numbers_as_english_does() -> None:
    catalogue = Path(teia.__file__).parent / "web/locale/pt_BR/LC_MESSAGES/teia.po"
    said = re.findall(r'^(?:msgstr(?:\[\d\])?|) ?"(.*)"$', catalogue.read_text("utf-8"), re.MULTILINE)
    english = {text for text in said if re.search(r"\d,\d{3}(?!\d)", text)}
    assert not english - {text for text in english if f'msgid "{text}"' in catalogue.read_text("utf-8")}
