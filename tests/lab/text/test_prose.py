"""Text: two languages that are told apart, distinct passages, readable slugs."""

from __future__ import annotations

from statistics import fmean

import pytest
from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.lang import detect_fast

from teia.lab.text.prose import CODECS, LANGUAGES, PASSAGES, Lexicons, slug
from teia.lab.text.words import TOPICS
from teia.lab.world.url_kinds import UrlKind
from tests.lab.worlds import EPOCH_S, fetch, make_world, slots_of_kind, url_of


@pytest.mark.parametrize("code", sorted(LANGUAGES))
@pytest.mark.parametrize("topic", TOPICS)
def test_tables_are_full_distinct_and_safe_to_put_into_html(code: str, topic: str) -> None:
    lexicon = Lexicons(1).lexicon(code, topic, "utf-8")
    assert len(set(lexicon.passages)) == len(lexicon.passages) == PASSAGES
    assert len(set(lexicon.heads)) == len(set(lexicon.tails)) == 256
    texts = [*lexicon.passages, *lexicon.heads, *lexicon.tails, *lexicon.items, *lexicon.proverbs]
    assert not any(sign in text for text in texts for sign in (b"<", b">", b"&", b'"'))
    for text in texts:
        text.decode().encode("latin-1")


def test_both_languages_say_the_same_things() -> None:
    portuguese, english = LANGUAGES["pt"], LANGUAGES["en"]
    assert portuguese.phrases.keys() == english.phrases.keys()
    assert set(portuguese.topics) == set(english.topics) == set(TOPICS)
    assert len(portuguese.sections) == len(english.sections)


def test_charsets_change_only_the_encoding() -> None:
    library = Lexicons(1)
    one, other = library.lexicon("pt", "food", "utf-8"), library.lexicon("pt", "food", "iso-8859-1")
    assert [text.decode() for text in one.passages] == [text.decode("latin-1") for text in other.passages]
    assert set(CODECS.values()) == {"utf-8", "latin-1"}


@pytest.mark.parametrize("code", ["pt", "en"])
def test_a_language_detector_recognises_the_pages(code: str) -> None:
    world = make_world(pages=480, hosts=12, sites__theta=0.0, sites__portuguese=float(code == "pt"))
    found = []
    for space, slot in slots_of_kind(world, UrlKind.PAGE):
        body = fetch(world, url_of(world, space, slot), EPOCH_S).body.decode(space.lexicon.codec)
        found.append(detect_fast(extract_plain_text(body))[0])
    # The detector takes one Portuguese page in forty for Galician.
    assert found.count(code) / len(found) > 0.9


def test_pages_are_a_few_kilobytes() -> None:
    world = make_world(pages=1_000)
    sizes = [len(fetch(world, url_of(world, *page)).body) for page in slots_of_kind(world, UrlKind.PAGE)]
    assert 4_096 < fmean(sizes) < 8_192


def test_slugs_have_only_what_a_path_may_have() -> None:
    assert slug("À volta de São João, 3.ª edição!") == "a-volta-de-sao-joao-3-a-edicao"
