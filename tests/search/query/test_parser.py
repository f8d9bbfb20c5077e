"""Queries and the trees they become."""

from __future__ import annotations

from itertools import combinations
from typing import TypeAlias, Union

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from teia.search.query.notes import NoteKind, make_note
from teia.search.query.parser import parse
from teia.search.query.tree import Ago, Clauses, ExactText, FilterChoice, Filters, Node, Phrase, Prefix, Word, leaves
from tests.conftest import ROOT
from tests.search.texts import matches, queries

Logic: TypeAlias = Union[str, "list[list[tuple[bool, Logic]]]"]


def some(*nodes: Node | str) -> Clauses:
    return Clauses(should=tuple(map(node_of, nodes)))


def every(*nodes: Node | str) -> Clauses:
    return Clauses(must=tuple(map(node_of, nodes)))


def node_of(node: Node | str) -> Node:
    return Word(node) if isinstance(node, str) else node


def phrase(text: str) -> Phrase:
    return Phrase(tuple(text.split()))


def joined(text: str) -> Phrase:
    return Phrase(tuple(text.split()), joined=True)


def clauses(must: str = "", should: str = "", must_not: str = "") -> Clauses:
    return Clauses(*(tuple(map(Word, words.split())) for words in (must, should, must_not)))


def kind(text: str) -> list[NoteKind]:
    return [NoteKind(note.code) for note in parse(text).notes]


PAPER = [
    ("café carro bolo", clauses(should="café carro bolo")),
    ("cachorro gato", clauses(should="cachorro gato")),
    ("+informatica +banco +dados", clauses(must="informatica banco dados")),
    ("+sistemas +de +busca", clauses(must="sistemas de busca")),
    ("+navegador -firefox", clauses(must="navegador", must_not="firefox")),
    ("+celular -compra", clauses(must="celular", must_not="compra")),
    ('"sistemas de busca"', every(phrase("sistemas de busca"))),
    ("“quero café”", every(phrase("quero café"))),
]

WORDS = [
    ("", Clauses()),
    ("Café CAFÉ cafe\u0301", some(Word("café", 3))),
    ("de novo de", some(Word("de", 2), "novo")),
    ("+a +a -b -b", clauses(must="a", must_not="b")),
    ("+a b", clauses(must="a", should="b")),
    ("\N{MINUS SIGN}a b", clauses(should="b", must_not="a")),
    ("olá, mundo!", clauses(should="olá mundo")),
    ("foo(bar)", clauses(should="foo bar")),
    ("NEAR near", some(Word("near", 2))),
    ("word~9 boost^2", clauses(should="word 9 boost 2")),
    ("a\0b", clauses(should="a b")),
    ("ab* +cd* -ef*", Clauses((Prefix("cd"),), (Prefix("ab"),), (Prefix("ef"),))),
]

JOINED = [
    ("e-mail", some(joined("e mail"))),
    ("+e-mail", every(joined("e mail"))),
    ("x -e-mail", Clauses((), (Word("x"),), (joined("e mail"),))),
    ("AT&T d'água user@example.com", some(joined("at t"), joined("d água"), joined("user example com"))),
    ("12:30 1.000,50 10/05/2026", some(joined("12 30"), joined("1 000 50"), joined("10 05 2026"))),
    ("gato/cachorro a:b c,d", clauses(should="gato cachorro a b c d")),
    ("+gato/cachorro", every(joined("gato cachorro"))),
    ("c++ .net C#", some(Word("c", 2), "net")),
    ("git --amend", clauses(should="git amend")),
    ("5 - 3 + 1", clauses(should="5 3 1")),
    ("a... b", clauses(should="a b")),
    ("a--b", clauses(should="a b")),
]

OPERATORS = [
    ("a AND b", clauses(must="a b")),
    ("a OR b", clauses(should="a b")),
    ("a NOT b", clauses(should="a", must_not="b")),
    ("a AND NOT b", clauses(must="a", must_not="b")),
    ("a AND b NOT c", clauses(must="a b", must_not="c")),
    ("a AND b OR c", some(every("a", "b"), "c")),
    ("a OR b AND c", some("a", every("b", "c"))),
    ("a OR b AND NOT c", some("a", Clauses((Word("b"),), (), (Word("c"),)))),
    ("a AND b OR a AND NOT b", some(every("a", "b"), Clauses((Word("a"),), (), (Word("b"),)))),
    ("(a OR b) AND c", every(some("a", "b"), "c")),
    ("a AND (b OR c) AND d", every("a", some("b", "c"), "d")),
    ("a b AND c d", clauses(must="b c", should="a d")),
    ("+(a b) c", Clauses((some("a", "b"),), (Word("c"),))),
    ("-(a b) c", clauses(should="c", must_not="a b")),
    ("c -(+a +b)", Clauses((), (Word("c"),), (every("a", "b"),))),
    ("c NOT (a AND b)", Clauses((), (Word("c"),), (every("a", "b"),))),
    ("c -(-a)", clauses(must="a", should="c")),
    ("NOT NOT a", clauses(should="a")),
    ("a OR NOT b", clauses(should="a", must_not="b")),
    ("+a OR +b", clauses(should="a b")),
    ("(a (b (c)))", clauses(should="a b c")),
    ("((+a +b))", clauses(must="a b")),
    ("and or not And Or Not", some(Word("and", 2), Word("or", 2), Word("not", 2))),
    ('"AND" "or not near"', every(phrase("and"), phrase("or not near"))),
]

PHRASES = [
    ('"a b" c', Clauses((phrase("a b"),), (Word("c"),))),
    ('"a b" "c d"', every(phrase("a b"), phrase("c d"))),
    ('"a b" OR "c d" OR e', some(phrase("a b"), phrase("c d"), "e")),
    ('x -"a b"', Clauses((), (Word("x"),), (phrase("a b"),))),
    ('"one"', every(phrase("one"))),
    ("«a b» „c d“", every(phrase("a b"), phrase("c d"))),
    ('"a+b -c site:d"', every(phrase("a b c site d"))),
    ('"" "..." a', clauses(should="a")),
]

TEXT = [
    ("AND", clauses(should="and")),
    ("salt AND", clauses(should="salt and")),
    ("OR salt", clauses(should="or salt")),
    ("salt NOT", clauses(should="salt not")),
    ("a AND OR b", clauses(should="a and b")),
    ('say "hi there', clauses(should="say hi there")),
    ('-"hi there', clauses(should="hi there")),
    ('="Hi', clauses(should="hi")),
    ("(a b", clauses(should="a b")),
    ("a) b", clauses(should="a b")),
    (")(", Clauses()),
    ("a AND ()", clauses(should="a and")),
    ("+ - * = : ! ?", Clauses()),
    ("+ a", clauses(should="a")),
    ("-AND a", clauses(should="a", must_not="and")),
    ("site: a", clauses(should="site a")),
    ("after:soon a", clauses(should="after soon a")),
    ("sitio.test:80", some(joined("sitio test"), "80")),
    ("http://a.test/b", some("http", joined("a test"), "b")),
]


@pytest.mark.parametrize(("text", "tree"), [*PAPER, *WORDS, *JOINED, *OPERATORS, *PHRASES, *TEXT])
def test_a_query_becomes_this_tree(text: str, tree: Clauses) -> None:
    """F7's four kinds of query (the paper's own examples first), operators, and what is text after all."""
    query = parse(text)
    assert query.clauses == tree
    assert (query.exact, query.filters, query.expand) == ((), Filters(), None)


@pytest.mark.parametrize(
    ("text", "filters"),
    [
        ("site:example.com", Filters(site=FilterChoice(("example.com",)))),
        ("site:a.test site:b.test -site:c.a.test", Filters(site=FilterChoice(("a.test", "b.test"), ("c.a.test",)))),
        ("+lang:pt TYPE:pdf", Filters(lang=FilterChoice(("pt",)), type=FilterChoice(("pdf",)))),
        ("(site:a.test OR site:b.test)", Filters(site=FilterChoice(("a.test", "b.test")))),
        ("-(site:a.test)", Filters(site=FilterChoice((), ("a.test",)))),
        ("NOT site:a.test", Filters(site=FilterChoice((), ("a.test",)))),
        ('title:"Imposto de Renda"', Filters(title=FilterChoice(("imposto de renda",)))),
        ("link:Example.com/a(b)", Filters(link=FilterChoice(("http://example.com/a(b)",)))),
        ("(link:http://a.test/b)", Filters(link=FilterChoice(("http://a.test/b",)))),
        ("after:24h", Filters(after=Ago(24))),
        ("-after:48h", Filters(before=Ago(48))),
    ],
)
def test_filters_hold_for_the_whole_query(text: str, filters: Filters) -> None:
    query = parse(text)
    assert query.filters == filters
    assert not query.clauses
    assert query.notes == () or not query.is_answerable


def test_a_filter_is_no_operand() -> None:
    assert parse("a AND site:b.test").clauses == clauses(should="a")
    assert parse("site:b.test a NOT lang:en").clauses == clauses(should="a")


def test_a_filter_in_an_alternative_is_reported_to_hold_everywhere() -> None:
    assert kind("site:a.test OR word") == [NoteKind.FILTER_IN_OR]
    assert kind("-(site:a.test word) x") == [NoteKind.FILTER_IN_OR]
    assert kind("site:a.test OR site:b.test") == []


def test_exact_spelling_keeps_case_accents_and_punctuation() -> None:
    query = parse('="São Paulo,  SP" -=“d"e” rua')
    assert query.exact == (ExactText("São Paulo, SP"), ExactText('d"e', excluded=True))
    assert query.exact[0].phrase == phrase("são paulo sp")
    assert query.clauses == clauses(should="rua")


def test_expansion_is_asked_for_and_only_for_plain_words() -> None:
    """F7: query expansion on request."""
    assert parse("expand:on gato").expand is True
    assert parse("gato").expand is None
    assert parse("expandir:não gato").expand is False
    assert parse("gato e-mail site:a.test").is_plain
    for text in ("+gato", "gato -rato", '"gato"', "gat*", '="gato" rato', "gato (a AND b)", "site:a.test"):
        assert not parse(text).is_plain, text
    assert kind("expand:on +gato") == [NoteKind.NOT_EXPANDED]


@pytest.mark.parametrize("text", ["NOT x", "-x", "-site:a.test", '-="X"', "-x -lang:pt"])
def test_only_negatives_find_nothing_and_say_so(text: str) -> None:
    query = parse(text)
    assert not query.is_answerable
    assert [note.code for note in query.notes] == [NoteKind.ONLY_NEGATIVE.value]


@pytest.mark.parametrize("text", ["", "  ", "*", "+", "()", "expand:on", "\ud800", "!?", '="!!"'])
def test_a_query_without_words_says_so(text: str) -> None:
    query = parse(text)
    assert not query.is_answerable
    assert [note.code for note in query.notes] == [NoteKind.EMPTY.value]


@pytest.mark.parametrize("text", ["x", "site:a.test", "after:2026", "before:7d -x", '="X"', "link:a.test"])
def test_a_positive_filter_is_enough(text: str) -> None:
    assert parse(text).is_answerable


@pytest.mark.parametrize(
    ("text", "kind", "detail"),
    [
        ('a little "open', NoteKind.QUOTE_OPEN, "10"),
        ("a (b", NoteKind.PARENTHESIS_OPEN, "3"),
        ("a) b", NoteKind.PARENTHESIS_CLOSED, "2"),
        ("inurl:x", NoteKind.FILTER_UNKNOWN, "inurl:"),
        ("site: x", NoteKind.FILTER_EMPTY, "site:"),
        ("site:x!y", NoteKind.BAD_HOST, "site:x!y"),
        ("site:x.test/y", NoteKind.HOST_PATH, "site:x.test/y"),
        ("lang:klingonish", NoteKind.BAD_LANG, "lang:klingonish"),
        ("type:holiday", NoteKind.BAD_TYPE, "type:holiday"),
        ("link:mailto:a@b", NoteKind.BAD_LINK, "link:mailto:a@b"),
        ("title:!! x", NoteKind.BAD_TITLE, "title:!!"),
        ("after:2026-13", NoteKind.BAD_DATE, "after:2026-13"),
        ("expand:maybe", NoteKind.BAD_EXPAND, "expand:maybe"),
        ("after:2025 after:2026", NoteKind.GIVEN_TWICE, "after:"),
        ("*a", NoteKind.WILDCARD, "*a"),
        ("a*", NoteKind.PREFIX_SHORT, "a*"),
    ],
)
def test_what_was_read_otherwise_is_reported(text: str, kind: NoteKind, detail: str) -> None:
    assert parse(text).notes == (make_note(kind, detail),)


@pytest.mark.parametrize("text", ["12:30", "http://a.test", "c:\\x", "Nota: x", "x:", "std::vector", "- * a", "a ** b"])
def test_ordinary_text_earns_no_note(text: str) -> None:
    assert parse(text).notes == ()


def test_every_example_of_the_guide_is_read_as_it_is_written() -> None:
    guide = (ROOT / "docs" / "query-language.md").read_text("utf-8")
    rows = [line.split("|") for line in guide.splitlines() if line.startswith("| `")]
    examples = [cell.strip(" `") for row in rows for cell in row[1:3] if cell.startswith(" `") and cell.endswith("` ")]
    assert len(examples) > 30
    for example in examples:
        query = parse(example)
        assert query.is_answerable, example
        assert query.notes == (), (example, query.notes)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("imposto AND renda", "+imposto +renda"),
        ("gato NOT cachorro", "gato -cachorro"),
        ("lei domínio:camara.test", "lei site:camara.test"),
        ("python idioma:português", "python lang:pt-BR"),
        ("edital desde:2026-03", "edital after:2026-03-01"),
        ("-tipo:pdf lei", "lei NOT type:PDF"),
        ("expandir:sim energia", "expand:on energia"),
    ],
)
def test_these_mean_the_same(text: str, same: str) -> None:
    assert parse(text) == parse(same)


letters = st.sampled_from("abcd")
PAGES = [frozenset(page) for size in range(5) for page in combinations("abcd", size)]


def written(logic: Logic) -> str:
    """An expression as a person types it: no parenthesis that precedence does not need."""
    if isinstance(logic, str):
        return logic
    chains = [
        " AND ".join(f"NOT {atom(factor)}" if negative else atom(factor) for negative, factor in chain)
        for chain in logic
    ]
    return " OR ".join(chains)


def atom(logic: Logic) -> str:
    return logic if isinstance(logic, str) else f"({written(logic)})"


def holds(logic: Logic, page: frozenset[str]) -> bool:
    if isinstance(logic, str):
        return logic in page
    return any(all(holds(factor, page) != negative for negative, factor in chain) for chain in logic)


def chains_of(inner: st.SearchStrategy[Logic]) -> st.SearchStrategy[Logic]:
    """Alternatives of chains; each has something to look for, because NOT only restricts."""
    wanted = inner.map(lambda factor: (False, factor))
    chain = st.builds(lambda first, rest: [first, *rest], wanted, st.lists(st.tuples(st.booleans(), inner), max_size=2))
    return st.lists(chain, min_size=1, max_size=3)


@given(st.recursive(letters, chains_of, max_leaves=10))
def test_operators_mean_what_logic_says(logic: Logic) -> None:
    query = parse(written(logic))
    assert not query.notes
    assert [matches(query.clauses, page) for page in PAGES] == [holds(logic, page) for page in PAGES]


@given(queries)
def test_no_text_raises(text: str) -> None:
    query = parse(text)
    assert all(line and "\n" not in line for line in query.notes)
    assert query.is_answerable or query.notes


@given(queries, queries)
def test_a_plain_word_is_never_lost(one: str, other: str) -> None:
    """Whatever stands around it, save quotes and parentheses that take it in, and more conditions than are used."""
    assume(not set('"“”„‟«»()') & set(one + other))
    query = parse(f"{one} marco {other}")
    assume(NoteKind.CONDITIONS.value not in {note.code for note in query.notes})
    assert "marco" in {getattr(leaf, "text", "") for leaf in leaves(query.clauses)}
