"""From a query to weighted terms of fields."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from teia.search.query.parser import parse
from teia.search.rank.make_plan import MAX_PAIRED_WORDS, MAX_PAIRS, FieldWeights, Planner, needed_counts, run_together
from teia.search.rank.plan import AnyOf, Dated, Group, InTitle, Near, Plan, Term, leaves, matching
from teia.search.rank.statistics import PAGES, TermCounts
from teia.urls import key_of

NOW_S = datetime(2026, 5, 1, tzinfo=UTC).timestamp()
WEIGHTS = FieldWeights()


def planned(text: str, **pages_with: int) -> Plan:
    query = parse(text)
    demand = needed_counts(query)
    counts = TermCounts({PAGES: 1_000} | {term: pages_with.get(term[1], 10) for term in demand.terms})
    counts.prefixes.update({prefix: {f"{prefix}a": 5, f"{prefix}b": 3} for prefix in demand.prefixes})
    return Planner(counts, WEIGHTS).plan(query, NOW_S)


def terms(plan: Plan) -> dict[tuple[str, str], float]:
    assert plan.scored is not None
    return {(leaf.field, leaf.text): leaf.boost for leaf in leaves(plan.scored) if isinstance(leaf, Term)}


def nears(plan: Plan) -> list[Near]:
    assert plan.scored is not None
    return [leaf for leaf in leaves(plan.scored) if isinstance(leaf, Near)]


def test_a_word_queries_four_fields() -> None:
    assert terms(planned("Impostos")) == {
        ("all", "impost"): WEIGHTS.text,
        ("head", "impost"): WEIGHTS.head,
        ("anchor", "impost"): WEIGHTS.anchor,
        ("exact", "impostos"): WEIGHTS.exact,
    }


def test_a_word_tells_as_much_in_every_field() -> None:
    plan = planned("imposto", impost=7)
    assert plan.scored is not None
    assert len({leaf.idf for leaf in leaves(plan.scored)}) == 1


def test_a_stop_word_queries_the_field_that_has_it() -> None:
    assert terms(planned("+de")) == {("exact", "de"): WEIGHTS.text}


def test_a_word_typed_twice_counts_twice() -> None:
    assert terms(planned("lei lei"))["all", "lei"] == 2 * WEIGHTS.text


def test_neighbours_in_the_query_are_neighbours_in_the_text() -> None:
    pairs = nears(planned("imposto renda pessoa"))
    assert {pair.texts for pair in pairs} == {("impost", "rend"), ("rend", "pesso")}
    assert all((pair.field, pair.slop, pair.boost) == ("all", 5, WEIGHTS.pair) for pair in pairs)


def test_only_the_rarest_pairs_are_looked_for() -> None:
    words = [f"palavra{n}x" for n in range(MAX_PAIRED_WORDS)]
    counts = {word: 1 + n for n, word in enumerate(words)}
    pairs = nears(planned(" ".join(words), **counts))
    assert len(pairs) == MAX_PAIRS
    assert pairs[0].texts == ("palavra0x", "palavra1x")
    assert nears(planned(" ".join([*words, "mais"]), **counts)) == pairs
    assert nears(planned(" ".join([*words, "outra"]), **counts)) == []


def test_a_phrase_is_searched_as_it_is_written_stop_words_too() -> None:
    (phrase,) = nears(planned('"sistemas de busca"'))
    assert (phrase.field, phrase.texts, phrase.slop) == ("exact", ("sistemas", "de", "busca"), 0)


def test_required_words_are_groups_that_must_match() -> None:
    plan = planned("+imposto renda")
    assert plan.scored is not None
    (required,) = plan.scored.must
    assert isinstance(required, Group)
    assert {part.field for part in required.should if isinstance(part, Term)} == {"all", "head", "anchor", "exact"}


def test_an_excluded_word_is_looked_for_in_the_text_alone() -> None:
    (excluded,) = planned("imposto -carros").excluded
    assert isinstance(excluded, Term)
    assert (excluded.field, excluded.text) == ("all", "carr")


def test_a_prefix_is_its_words_as_if_they_were_one() -> None:
    plan = planned("orç*")
    assert terms(plan) == {("exact", "orca"): WEIGHTS.text, ("exact", "orcb"): WEIGHTS.text}


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("site:camara.test", AnyOf("within", ("camara.test",))),
        ("-host:a.test x", AnyOf("host", ("a.test",), excluded=True)),
        ("lang:pt lang:en", AnyOf("lang", ("pt", "en"))),
        ("type:html", AnyOf("type", ("text/html", "application/xhtml+xml"))),
        ("link:http://a.test/", AnyOf("links", (key_of("http://a.test/"),))),
        ('title:"Orçamento anual"', InTitle((("orcamento", "anual"),))),
        ("after:2026-03", Dated(int(datetime(2026, 3, 1, tzinfo=UTC).timestamp()), None)),
        ("before:7d", Dated(None, int(NOW_S) - 7 * 86_400)),
    ],
)
def test_filters_are_conditions(typed: str, expected: object) -> None:
    assert expected in planned(typed).conditions


def test_without_words_nothing_is_scored() -> None:
    assert planned("site:a.test").scored is None
    assert planned("site:a.test -carro").scored is None
    assert len(planned("site:a.test -carro").excluded) == 1


def test_a_plan_for_counting_finds_the_same_with_less() -> None:
    plan = matching(planned("imposto renda"))
    assert plan.scored is not None
    assert {leaf.field for leaf in leaves(plan.scored)} == {"all", "anchor", "exact"}
    assert not nears(plan)
    assert nears(matching(planned('"imposto de renda" carro')))[0].slop == 0
    assert matching(planned("site:a.test")) == planned("site:a.test")


def test_words_that_no_page_has_are_worth_nothing() -> None:
    query = parse("imposto xyzzy e-mail")
    counts = TermCounts({PAGES: 100, ("all", "impost"): 5, ("exact", "e"): 50, ("exact", "mail"): 0})
    planner = Planner(counts)
    worth = [planner.worth(node) for node in query.clauses.should]  # type: ignore[arg-type]
    assert worth[0] > 0
    assert worth[1:] == [0.0, 0.0]


@pytest.mark.parametrize(
    "typed", ['+(a "b c") d* -e site:x.test link:http://a/ title:y after:2026', "imposto renda", "lang:pt"]
)
def test_a_plan_can_be_sent_to_another_machine(typed: str) -> None:
    """F8: a shard needs the plan and nothing else."""
    plan = planned(typed)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(plan), type=Plan) == plan


def test_joined_words_are_searched_as_one_but_numbers_are_not() -> None:
    """Seen: `what is new in python 3.11` found a page about sockets, with the number 1.3.6.1.4.1.311."""
    assert run_together(("e", "mail")) == ("email",)
    assert run_together(("1", "000")) == ("1000",)
    assert run_together(("3", "11")) == run_together(("12", "30")) == ()
