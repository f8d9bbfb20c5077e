"""A second look at the first results: passages, lists of links, and texts that were typed with signs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from teia.index.entry import Anchor
from teia.search.query.parser import parse
from teia.search.rank.passages import LOOKED_AT, Passages, PassageWeights, link_share
from tests.index.pages import page
from tests.search.library import found, searcher_over

SITE = "http://docs.test"
FILLER = "The committee discussed the budget of the harbour and the state of its bridges at some length in the evening."


def signature(name: str) -> str:
    return f"pub fn {name}(&mut self, value: T) -> usize\nThis method changes the list in place and returns its length."


VEC = page(
    f"{SITE}/vec.html",
    "\n".join([*(signature(f"method{n}") for n in range(60)), signature("push"), "let mut vec = Vec::new();"] * 3),
    "Vec in std - Rust",
)
MENTIONS = [
    page(f"{SITE}/{n}.html", f"{FILLER}\n" * 20 + f"Here a vec is used.\n{FILLER}\nDo not push others.", f"Chapter {n}")
    for n in range(2)
]
OTHERS = [page(f"{SITE}/other{n}.html", f"{FILLER} {n}", f"Other {n}") for n in range(30)]


def test_a_long_reference_page_comes_before_short_pages_that_mention_the_words(tmp_path: Path) -> None:
    with searcher_over(tmp_path, VEC, *MENTIONS, *OTHERS) as searcher:
        assert found(searcher, "vec push")[0] == "vec.html"


def test_words_that_stand_together_come_before_words_far_from_each_other(tmp_path: Path) -> None:
    line = "The tax that all ships of the country pay in spring and in autumn is for the place at the anchor."
    together = page(f"{SITE}/together", f"{FILLER}\n{line}\n{FILLER}", "One")
    apart = page(f"{SITE}/apart", f"The anchor is heavy.\n{FILLER}\n{FILLER}\nA tax is due.", "Two")
    with searcher_over(tmp_path, apart, together) as searcher:
        assert found(searcher, "anchor tax")[0] == "together"


def test_a_list_of_links_comes_after_the_pages_it_leads_to(tmp_path: Path) -> None:
    names = [f"The {word} method" for word in ("append", "extend", "insert", "remove", "reverse", "sort")]
    pages = [
        page(f"{SITE}/{name.split()[1]}", f"{FILLER}\n{name} changes a list in place.\n{FILLER}\n{FILLER}", name)
        for name in names
    ]
    links = tuple(Anchor(each.key, each.host, name) for each, name in zip(pages, names, strict=True))
    index = msgspec.structs.replace(page(f"{SITE}/index", "\n".join(names), "Index"), links=links)
    assert link_share(index) == pytest.approx(1, abs=0.1)
    assert link_share(pages[0]) == 0
    with searcher_over(tmp_path, index, *pages) as searcher:
        words = found(searcher, "insert method")
        assert words[0] == "insert"
        assert found(searcher, "methods")[-1] == "index"


def test_an_index_of_terms_comes_after_the_pages_it_leads_to(tmp_path: Path) -> None:
    lines = (FILLER, "An f-string is a literal with fields.", "An f-string has fields.", "Other f-string fields.")
    guide = page(f"{SITE}/strings", "\n".join(lines), "Strings")
    terms = [f"f-string {word}" for word in ("fields", "format", "literal", "quotes", "repr", "syntax", "width", "zip")]
    index = msgspec.structs.replace(
        page(f"{SITE}/index", "\n".join(terms), "Index"), links=(Anchor(guide.key, guide.host, terms[0]),)
    )
    counted = msgspec.structs.replace(index, anchor_count=len(terms))
    assert (link_share(index), link_share(counted)) == (pytest.approx(0.12, abs=0.02), pytest.approx(0.95, abs=0.06))
    for name, pages in (("uncounted", (index, guide)), ("counted", (counted, guide))):
        with searcher_over(tmp_path / name, *pages, *OTHERS) as searcher:
            first = "index" if name == "uncounted" else "strings"
            assert found(searcher, "f-string fields")[0] == first


def test_the_order_does_not_depend_on_the_number_of_results(tmp_path: Path) -> None:
    pages = [
        page(f"{SITE}/{n}", f"{FILLER}\nanchor {'tax ' * (n % 7)}\n{'harbour ' * n}\ntax", f"Page {n % 3}")
        for n in range(LOOKED_AT + 15)
    ]
    with searcher_over(tmp_path, *pages) as searcher:
        everything = searcher.search("anchor tax", 40)
        assert [hit.url for hit in searcher.search("anchor tax", 5).hits] == [hit.url for hit in everything.hits[:5]]
        later = searcher.search("anchor tax", 10, 18).hits
        assert [hit.url for hit in later] == [hit.url for hit in everything.hits[18:28]]
        scores = [hit.score for hit in everything.hits]
        assert scores == sorted(scores, reverse=True)


LANGUAGES = [
    page(f"{SITE}/c", "The C language. C is old and C is small. A C compiler reads C and writes C.", "The C language"),
    page(f"{SITE}/cpp", f"C++ has classes and templates.\n{FILLER}\nA C++ compiler is large.", "Templates"),
    page(f"{SITE}/csharp", f"C# runs on .NET, like other languages.\n{FILLER}\nC# has delegates.", "Delegates"),
    page(f"{SITE}/net", "A net for fish. The net is wide, the net is old: net, net and net of www.fish.net.", "Net"),
    page(f"{SITE}/node", f"Node.js runs scripts outside of a browser.\n{FILLER}", "Servers"),
    page(f"{SITE}/nodes", f"A node of a graph. Each node has edges. The letters js.\n{FILLER}", "Graph node"),
    page(f"{SITE}/fstrings", f"F-strings are formatted string literals.\n{FILLER}", "Literals"),
    page(f"{SITE}/strings", f"Strings, strings and strings. The letter f.\n{FILLER}", "Strings"),
    page(f"{SITE}/new311", f"What is new in Python 3.11: faster code.\n{FILLER}", "News"),
    page(f"{SITE}/new310", f"What is new in Python 3.10, since 11 months: python and python 3.\n{FILLER}", "News"),
    page(f"{SITE}/oid", f"What is new: the number 1.3.6.311.60 in Python 3.11.2, and 311.\n{FILLER}", "Sockets"),
    page(f"{SITE}/fstab", f"File systems are listed in /etc/fstab, one a line.\n{FILLER}", "File systems"),
    page(f"{SITE}/etc", f"An fstab, etc. The folder etc has files, etc; fstab is one, fstab.\n{FILLER}", "Fstab etc"),
]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("c++", "cpp"),
        ("C++ compiler", "cpp"),
        ("c#", "csharp"),
        (".net", "csharp"),
        ("node.js", "node"),
        ("f-strings", "fstrings"),
        ("what is new in python 3.11", "new311"),
        ("/etc/fstab", "fstab"),
        ("what is /etc/fstab?", "fstab"),
    ],
)
def test_texts_with_signs_are_found_as_they_are_spelt(tmp_path: Path, query: str, first: str) -> None:
    with searcher_over(tmp_path, *LANGUAGES) as searcher:
        assert found(searcher, query)[0] == first


def test_punctuation_around_words_is_no_spelling() -> None:
    assert parse("what is new in python 3.11?").spelt == ("3.11",)
    assert parse('(cats, dogs) "c++" -c# it’s! +.net').spelt == (".net",)


def test_a_letter_and_a_word_are_looked_for_as_they_are_spelt() -> None:
    """`f-strings` found a page about `pack_fstring` first, because the joined word is rare."""
    assert parse("f-strings").spelt == ("f-strings",)
    assert parse("well-known e-mail").spelt == ("e-mail",)
    looked_for = Passages(parse("f-strings"), PassageWeights())
    spelt, joined = (page(f"{SITE}/x", f"About {text}. {FILLER}") for text in ("f-strings", "pack_fstrings"))
    assert looked_for.factor(spelt) > looked_for.factor(joined)


def test_a_word_in_a_longer_one_or_in_a_domain_is_another_spelling() -> None:
    looked_for = Passages(parse(".net"), PassageWeights())
    with_net, with_domain = (page(f"{SITE}/x", f"{text} {FILLER}") for text in ("A .NET program.", "See www.fish.net."))
    assert looked_for.factor(with_net) > looked_for.factor(with_domain)


def test_a_longer_version_is_another_one() -> None:
    looked_for = Passages(parse("python 3.11"), PassageWeights())
    here, longer = (page(f"{SITE}/x", f"Python {number} is out. {FILLER}") for number in ("3.11", "3.11.2"))
    assert looked_for.factor(here) > looked_for.factor(longer)


def test_a_long_run_of_signs_is_no_spelling_that_is_looked_for() -> None:
    """Such a text takes quadratic time in a page of the same sign."""
    assert Passages(parse("+" * 2_000 + "a"), PassageWeights())._spelt == []
    assert Passages(parse("c++"), PassageWeights())._spelt
