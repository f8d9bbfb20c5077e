"""Every sentence of the interface has its translation, and what is compiled is what is written."""

from __future__ import annotations

import pytest
from babel.messages.pofile import read_po

from .conftest import Web
from .messages import LOCALES, as_mo, as_po, catalog_file, current, untranslated


@pytest.mark.heavy
@pytest.mark.parametrize("locale", LOCALES)
def test_every_sentence_is_translated(locale: str) -> None:
    assert not untranslated(current(locale)), "write them in the .po file, then scripts/messages"


@pytest.mark.heavy
@pytest.mark.parametrize("locale", LOCALES)
def test_the_catalogues_are_current(locale: str) -> None:
    path = catalog_file(locale)
    assert path.read_bytes() == as_po(current(locale)), "scripts/messages brings it up to date"
    with path.open("rb") as file:
        assert path.with_suffix(".mo").read_bytes() == as_mo(read_po(file, locale=locale))


def test_a_page_comes_in_the_language_that_was_requested(web: Web) -> None:
    client = web.client()
    assert "Busque em 4 páginas" in client.get("/", headers={"accept-language": "pt-PT, en;q=0.5"}).text
    assert "Search 4 pages" in client.get("/", headers={"accept-language": "fr"}).text
    assert client.post("/choose", data={"language": "pt-BR", "to": "/search"}).headers["location"] == "/search"
    assert 'lang="pt-BR"' in client.get("/", headers={"accept-language": "en"}).text, "what was chosen comes first"
