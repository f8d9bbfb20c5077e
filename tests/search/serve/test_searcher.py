"""Searching from what is typed to what is shown (F7, F8, F10)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from teia.clock import VirtualClock
from teia.index.entry import IndexEntry
from teia.index.repeated import number_of_line
from teia.search.query.tree import RESULT_WINDOW
from teia.search.serve.searcher import MAX_AT_ONCE, Searcher, SearchOptions
from teia.search.show.results import Facts
from tests.index.pages import page
from tests.search.library import NOW_S, as_one, cells_of, found, searcher_over, urls

SITE = "http://www.camara.test"


def seconds(year: int, month: int = 1, day: int = 1) -> int:
    return int(datetime(year, month, day, tzinfo=UTC).timestamp())


PAGES = (
    page(
        f"{SITE}/imposto",
        "O imposto de renda da pessoa física é pago em abril. Quem paga imposto guarda o recibo.",
        "Imposto de renda",
        language="pt",
        date_s=seconds(2025, 6, 1),
        links=["http://receita.test/irpf"],
    ),
    page(
        f"{SITE}/carro",
        "O imposto do carro é pago em janeiro. A renda não conta para a conta do carro.",
        "Imposto do carro",
        language="pt",
        date_s=seconds(2024, 3, 5),
    ),
    page(f"{SITE}/lei", "A lei nova muda a renda das pessoas.", "Lei da renda", language="pt", date_s=seconds(2026)),
    page(
        "http://news.example/tax",
        "The income tax is due in April. São Paulo and SAO PAULO are the same city.",
        "Income tax",
        language="en",
        date_s=seconds(2025, 1, 2),
    ),
    page(
        "http://news.example/manual.pdf",
        "A manual about cars, roads and the state of the roads.",
        "Manual",
        language="en",
        media_type="application/pdf",
        links=["http://receita.test/irpf", f"{SITE}/imposto"],
    ),
)


@pytest.fixture(scope="module")
def searcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Searcher]:
    anchors = {f"{SITE}/imposto": ["leão do fisco"]}
    with searcher_over(tmp_path_factory.mktemp("pages"), *PAGES, anchors=anchors) as opened:
        yield opened


# ---- what a query means ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("imposto", {"imposto", "carro"}),
        ("IMPÔSTOS", {"imposto", "carro"}),
        ("imposto lei", {"imposto", "carro", "lei"}),
        ("+imposto +renda", {"imposto", "carro"}),
        ("+imposto +abril", {"imposto"}),
        ("imposto AND abril", {"imposto"}),
        ("imposto -carro", {"imposto"}),
        ("imposto NOT abril", {"carro"}),
        ('"imposto de renda"', {"imposto"}),
        ('"renda de imposto"', set()),
        ('"pessoa física" carro', {"imposto"}),
        ("(abril OR janeiro) AND imposto", {"imposto", "carro"}),
        ("+(abril janeiro) -carro", {"imposto"}),
        ("impost*", {"imposto", "carro"}),
        ("renda -(+imposto +carro)", {"imposto", "lei"}),
        ("fisco", {"imposto"}),
        ("+fisco +abril", {"imposto"}),
        ("title:lei", {"lei"}),
        ('title:"imposto de renda"', {"imposto"}),
        ("title:lei title:manual", {"lei", "manual.pdf"}),
        ("renda -title:lei", {"imposto", "carro"}),
        ("site:camara.test", {"imposto", "carro", "lei"}),
        ("site:test", {"imposto", "carro", "lei"}),
        ("host:camara.test", set()),
        ("host:www.camara.test lei", {"lei"}),
        ("-site:camara.test tax", {"tax"}),
        ("lang:en", {"tax", "manual.pdf"}),
        ("type:pdf", {"manual.pdf"}),
        ("roads -type:pdf", set()),
        ("link:http://receita.test/irpf", {"imposto", "manual.pdf"}),
        ("link:http://receita.test/irpf -lang:pt", {"manual.pdf"}),
        ("after:2025 site:camara.test", {"imposto", "lei"}),
        ("renda before:2025", {"carro"}),
        ("renda after:2024-03 before:2025-07", {"imposto", "carro"}),
        ('="São Paulo"', {"tax"}),
        ('="SAO PAULO"', {"tax"}),
        ('="sao paulo"', set()),
        ('tax -="SAO PAULO"', set()),
        ('="imposto" -carro', {"imposto"}),
    ],
)
def test_a_query_finds_what_it_says(searcher: Searcher, typed: str, expected: set[str]) -> None:
    assert set(found(searcher, typed)) == expected


def test_filters_without_words_list_the_newest_first(searcher: Searcher) -> None:
    assert found(searcher, "site:camara.test") == ["lei", "imposto", "carro"]
    assert all(hit.score == 0 for hit in searcher.search("site:camara.test").hits)


def test_a_page_with_more_of_the_words_comes_first(searcher: Searcher) -> None:
    assert found(searcher, "imposto renda abril")[0] == "imposto"


def test_a_word_in_the_title_counts_more(tmp_path: Path) -> None:
    pages = (
        page("http://a.test/text", "Something else and cheese in it", "A word"),
        page("http://a.test/title", "Something else and a word in it", "Cheese"),
    )
    assert found(searcher_over(tmp_path, *pages), "cheese") == ["title", "text"]


def test_words_that_stand_together_count_more(tmp_path: Path) -> None:
    pages = (
        page("http://a.test/apart", "green lights are seen by day and a house is warm at night"),
        page("http://a.test/together", "lights are seen by day and a green house is warm at night"),
    )
    assert found(searcher_over(tmp_path, *pages), "green house") == ["together", "apart"]


def test_the_word_as_it_is_written_comes_before_its_inflections(tmp_path: Path) -> None:
    pages = (
        page("http://a.test/stem", "they organised it well"),
        page("http://a.test/exact", "they organise it well"),
    )
    assert found(searcher_over(tmp_path, *pages), "organise") == ["exact", "stem"]


def test_what_is_written_as_one_is_also_found_run_together_and_apart(tmp_path: Path) -> None:
    pages = (
        page("http://a.test/joined", "send an e-mail today"),
        page("http://a.test/run", "send an email today"),
        page("http://a.test/part", "send the mail today"),
    )
    searcher = searcher_over(tmp_path, *pages)
    assert found(searcher, "e-mail")[0] == "joined"
    assert set(found(searcher, "e-mail")) == {"joined", "run", "part"}
    assert found(searcher, "+e-mail") == ["joined"]


# ---- what is shown --------------------------------------------------------------------------------------------------


def test_a_hit_says_all_that_is_known_of_its_page(searcher: Searcher) -> None:
    (hit,) = searcher.search("+imposto +abril").hits
    said = hit.as_json()
    assert said["url"] == f"{SITE}/imposto"
    assert (said["rank"], said["title"], said["lang"], said["type"]) == (1, "Imposto de renda", "pt", "text/html")
    assert said["last_visit"] == "2023-11-14T22:13:20.000000Z"
    assert said["date"] == "2025-06-01T00:00:00.000000Z"
    assert (said["backlinks"], said["fresh_probability"]) == (None, None)
    assert "<mark>imposto</mark>" in said["snippet"]
    assert said["title_html"] == "<mark>Imposto</mark> de renda"
    assert said["score"] > 0


def test_results_are_json_with_the_keys_that_were_agreed(searcher: Searcher) -> None:
    said = json.loads(
        json.dumps(searcher.search("imposto", options=SearchOptions(explain=True, facets=True)).as_json())
    )
    assert {"query", "total", "took_ms", "hits", "warnings"} <= set(said)
    wanted = {"rank", "url", "title", "snippet", "score", "last_visit", "fresh_probability", "lang", "type"}
    assert all(wanted <= set(hit) for hit in said["hits"])


def test_facts_about_pages_come_from_the_given_source(tmp_path: Path) -> None:
    class Known:
        def facts(self, urls: dict[int, str], /) -> dict[int, Facts]:
            return {key: Facts(5.0, 41, 0.87) for key in urls}

        def repeated_lines(self, hosts: set[str], /) -> dict[str, frozenset[int]]:
            return dict.fromkeys(hosts, frozenset({number_of_line("Um assunto: a lei")}))

    menu = page("http://menu.test/", "Um assunto: a lei\nA lei obriga todos os que moram aqui.", "Menu")
    with searcher_over(tmp_path, *PAGES, menu, facts=Known()) as opened:
        hit = opened.search("lei").hits[0]
        (with_menu,) = opened.search("lei site:menu.test").hits
    assert with_menu.snippet.plain().strip("… ") == "A lei obriga todos os que moram aqui."
    assert (hit.last_visit_s, hit.backlinks, hit.fresh_probability) == (5.0, 41, 0.87)


def test_an_explanation_adds_up_to_the_score(searcher: Searcher) -> None:
    results = searcher.search("imposto renda", options=SearchOptions(explain=True))
    for hit in results.hits:
        why = hit.explanation
        assert why is not None
        assert sum(part.score for part in why.components) == pytest.approx(why.text, rel=1e-4)
        whole = (why.text * why.authority * why.news * why.readable + why.semantics) * why.passages
        assert whole == pytest.approx(hit.score, rel=1e-6)
    fields = {part.field for part in results.hits[0].explanation.components}  # type: ignore[union-attr]
    assert fields >= {"all", "exact", "head", "near"}
    part = next(part for part in results.hits[0].explanation.components if part.field == "all")  # type: ignore[union-attr]
    assert (part.of, part.boost) == (len(PAGES), 1.0)
    assert part.pages in {2, 3}


def test_facets_count_all_pages_that_match(searcher: Searcher) -> None:
    facets = searcher.search("renda tax manual", options=SearchOptions(facets=True)).facets
    assert facets["host"] == {"www.camara.test": 3, "news.example": 2}
    assert facets["lang"] == {"pt": 3, "en": 2}
    assert facets["type"] == {"text/html": 4, "application/pdf": 1}
    assert list(facets["year"]) == sorted(facets["year"], reverse=True)
    assert sum(facets["year"].values()) == 5


def test_the_query_is_explained_in_plain_words(searcher: Searcher) -> None:
    assert searcher.search("+imposto -carro").understood == "pages with imposto, without carro"


# ---- pages of results -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Searcher]:
    folder = tmp_path_factory.mktemp("many")
    pages = [page(f"http://a.test/{n}", f"common word{n} " + f"filler{n} " * (n % 17)) for n in range(1_300)]
    cells_of(folder, [pages[:700], pages[700:]])
    with Searcher(as_one(folder, 2), VirtualClock(NOW_S)) as opened:
        yield opened


def test_pages_of_results_join_without_gap_or_repetition(many: Searcher) -> None:
    at_once = [hit.url for hit in many.search("common", 100).hits]
    by_tens = [hit.url for offset in range(0, 100, 10) for hit in many.search("common", 10, offset).hits]
    assert by_tens == at_once
    everything = [hit.url for offset in range(0, 1_000, 100) for hit in many.search("common", 100, offset).hits]
    assert everything[:100] == at_once
    assert len(set(everything)) == len(everything) == RESULT_WINDOW


def test_ranks_go_on_from_page_to_page(many: Searcher) -> None:
    assert [hit.rank for hit in many.search("common", 3, 7).hits] == [8, 9, 10]


@pytest.mark.parametrize("offset", [RESULT_WINDOW, 10**9, 10**30])
def test_no_result_beyond_the_thousandth_is_shown_and_that_is_reported(many: Searcher, offset: int) -> None:
    results = many.search("common", 10, offset)
    assert results.hits == ()
    assert results.total == 1_300
    assert "Results are shown down to the 1,000th" in results.warnings[0]


def test_the_last_page_is_cut_at_the_thousandth(many: Searcher) -> None:
    results = many.search("common", 20, 990)
    assert len(results.hits) == 10
    assert results.warnings


@pytest.mark.parametrize(("n", "shown"), [(0, 0), (-5, 0), (10**9, MAX_AT_ONCE)])
def test_odd_numbers_of_results_are_answered(many: Searcher, n: int, shown: int) -> None:
    assert len(many.search("common", n).hits) == shown


def test_a_negative_offset_is_the_beginning(many: Searcher) -> None:
    assert many.search("common", 3, -7).hits[0].rank == 1


def test_text_spelt_exactly_is_looked_for_in_the_first_thousand(many: Searcher) -> None:
    results = many.search('="common"')
    assert results.total == RESULT_WINDOW
    assert results.is_partial
    assert "the first 1,000 of 1,300" in results.warnings[0]


# ---- pages that read the same ---------------------------------------------------------------------------------------

TEXT = "The council met on Monday and spoke for three hours about the new bridge over the river near the old mill. " * 3
SAME = (
    page("http://a.test/original", TEXT, "Bridge"),
    page("http://mirror.test/copy", TEXT, "A copy of the bridge"),
    page("http://a.test/alike", TEXT.replace("Monday", "Tuesday", 1), "Bridge again"),
    page("http://a.test/other", "A bridge of quite another kind is a game of cards.", "Cards"),
    page("http://a.test/empty1", "", "Bridge one"),
    page("http://a.test/empty2", "", "Bridge two"),
)


def test_pages_that_read_the_same_are_one_result_that_counts_them(tmp_path: Path) -> None:
    searcher = searcher_over(tmp_path, *SAME)
    results = searcher.search("bridge")
    assert results.total == 6
    groups = {hit.url: hit.alike for hit in results.hits}
    assert sorted(groups.values()) == [0, 0, 0, 2]
    assert {"http://a.test/other", "http://a.test/empty1", "http://a.test/empty2"} < set(groups)


def test_the_others_of_a_group_can_be_shown(tmp_path: Path) -> None:
    searcher = searcher_over(tmp_path, *SAME)
    (leader,) = [hit.url for hit in searcher.search("bridge").hits if hit.alike]
    shown = searcher.search("bridge", options=SearchOptions(alike_to=leader))
    assert shown.hits[0].url == leader
    assert len(shown.hits) == 3
    assert len(searcher.search("bridge", options=SearchOptions(grouped=False)).hits) == 6
    assert searcher.search("bridge", options=SearchOptions(alike_to="http://nobody.test/")).hits == ()


# ---- when little is found -------------------------------------------------------------------------------------------


def test_a_misspelt_word_is_searched_as_it_was_meant_and_the_answer_says_so(searcher: Searcher) -> None:
    results = searcher.search("Impsto fisica")
    assert (results.query, results.corrected) == ("Impsto fisica", "imposto fisica")
    assert urls(results) == urls(searcher.search("imposto fisica"))
    assert results.missing == ("impsto",)
    assert results.as_json()["corrected"] == "imposto fisica"
    assert searcher.search("imposto fisica").as_json()["corrected"] is None


def test_words_are_searched_as_they_are_typed_on_request(searcher: Searcher) -> None:
    results = searcher.search("impsto fisica", options=SearchOptions(correct=False))
    assert (results.missing, results.corrected) == (("impsto",), "")
    (offered,) = results.suggestions
    assert (offered.word, offered.instead, offered.pages) == ("impsto", "imposto", 2)
    assert offered.query == "imposto fisica"
    assert found(searcher, "impsto", correct=False) == []


@pytest.mark.parametrize("typed", ['"impsto renda"', "+impsto renda", '="impsto" renda'])
def test_words_with_quotes_or_a_sign_are_not_corrected(searcher: Searcher, typed: str) -> None:
    assert searcher.search(typed).corrected == ""


@pytest.mark.parametrize(
    ("typed", "corrected"),
    [
        ("-site:impsto.test impsto fisica", "-site:impsto.test imposto fisica"),
        ('impsto fisica -"impsto renda"', '-"impsto renda" imposto fisica'),
    ],
)
def test_a_correction_leaves_filters_quotes_and_signs_as_they_are_typed(
    searcher: Searcher, typed: str, corrected: str
) -> None:
    assert searcher.search(typed).corrected == corrected


def test_an_offered_word_has_its_accents(searcher: Searcher) -> None:
    (offered,) = searcher.search("fisca").suggestions
    assert offered.instead == "física"


def test_nothing_is_offered_where_all_is_well(searcher: Searcher) -> None:
    results = searcher.search("imposto renda")
    assert results.suggestions == ()
    assert results.missing == ()


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("", "There is no word to search for"),
        ("-carro", "contains only exclusions"),
        ("NOT carro", "contains only exclusions"),
        ('"imposto', "never closed"),
        ("nofield:x", "Unknown filter"),
        ("***", "There is no word to search for"),
    ],
)
def test_bad_input_is_answered_with_words_a_person_understands(searcher: Searcher, typed: str, said: str) -> None:
    results = searcher.search(typed)
    assert any(said in warning for warning in results.warnings), results.warnings


@pytest.mark.parametrize("typed", ["de o a", "what is the", "para que", '"o de a"'])
def test_a_query_of_stop_words_alone_is_answered(searcher: Searcher, typed: str) -> None:
    assert isinstance(searcher.search(typed).total, int)


def test_stop_words_are_found_where_they_are_all_there_is(searcher: Searcher) -> None:
    assert set(found(searcher, "the")) == {"tax", "manual.pdf"}


def test_an_empty_index_is_answered_and_that_is_reported(tmp_path: Path) -> None:
    results = searcher_over(tmp_path).search("anything")
    assert (results.total, results.hits) == (0, ())
    assert "no pages in the index yet" in results.warnings[0]


def test_a_pasted_text_is_answered_by_its_best_words(searcher: Searcher) -> None:
    pasted = " ".join(f"palavra{n}" for n in range(300)) + " imposto de renda da pessoa física pago em abril"
    results = searcher.search(pasted)
    assert results.hits[0].url == f"{SITE}/imposto"
    assert any("32" in warning for warning in results.warnings)


# ---- languages ------------------------------------------------------------------------------------------------------


def bilingual() -> list[IndexEntry]:
    english, portuguese = "the backup of a server is a copy number", "o backup do servidor é a cópia número"
    pages = [page(f"http://en.test/{n}", f"{english} {n}", language="en") for n in range(30)]
    return [*pages, *(page(f"http://pt.test/{n}", f"{portuguese} {n}", language="pt") for n in range(30))]


def test_the_language_of_a_query_follows_from_its_words(tmp_path: Path) -> None:
    searcher = searcher_over(tmp_path, *bilingual())
    assert searcher.search("backup number").languages["en"] == 1
    assert searcher.search("backup número").languages["pt"] == 1
    both = searcher.search("backup").languages
    assert both["en"] == both["pt"] == 1


def test_pages_in_the_language_of_the_reader_come_first(tmp_path: Path) -> None:
    searcher = searcher_over(tmp_path, *bilingual())
    for language in ("en", "pt"):
        hits = searcher.search("backup", 30, options=SearchOptions(language=language, grouped=False)).hits
        assert {hit.lang for hit in hits} == {language}
    assert searcher.search("backup lang:pt").languages == {}


# ---- expansion and likeness -----------------------------------------------------------------------------------------


def topical() -> list[IndexEntry]:
    solar = "energia solar painel telhado inversor bateria"
    pages = [page(f"http://sun.test/{n}", f"{solar} casa{n} " * 3, f"Energia solar {n}") for n in range(6)]
    pages.append(page("http://sun.test/other", "o painel e o inversor no telhado " * 3, "Sem a palavra"))
    pages += [page(f"http://food.test/{n}", f"receita de bolo com farinha e ovos {n} " * 3, "Bolo") for n in range(40)]
    return pages


def test_expansion_finds_pages_by_words_that_the_best_have_in_common(tmp_path: Path) -> None:
    searcher = searcher_over(tmp_path, *topical())
    plain = searcher.search("energia solar")
    assert plain.expansion.words == ()
    assert plain.expansion.offered
    assert plain.total == 6
    expanded = searcher.search("expand:on energia solar")
    assert {"painel", "telhado", "inversor"} <= set(expanded.expansion.words)
    assert "http://sun.test/other" in [hit.url for hit in expanded.hits]
    assert not expanded.expansion.offered
    fewer = searcher.search("energia solar", options=SearchOptions(expand=True, unwanted=frozenset({"painel"})))
    assert "painel" not in fewer.expansion.words


@pytest.mark.parametrize("typed", ['expand:on "energia solar"', "expand:on +energia", "expand:on energia -bolo"])
def test_only_plain_words_are_expanded(tmp_path: Path, typed: str) -> None:
    searcher = searcher_over(tmp_path, *topical())
    assert searcher.search(typed).expansion.words == ()


def test_more_like_this_finds_the_same_subject_and_not_the_page_itself(tmp_path: Path) -> None:
    searcher = searcher_over(tmp_path, *topical())
    results = searcher.similar("http://sun.test/0", 5)
    assert results.hits
    assert all(hit.host == "sun.test" for hit in results.hits)
    assert "http://sun.test/0" not in [hit.url for hit in results.hits]


def test_more_like_a_page_that_is_not_there_is_a_message(searcher: Searcher) -> None:
    results = searcher.similar("http://nowhere.test/")
    assert results.hits == ()
    assert results.warnings == ("http://nowhere.test/ is not in the index",)


def test_the_text_of_a_page_can_be_read_from_the_index(searcher: Searcher) -> None:
    kept = searcher.indexed_page("www.camara.test/lei")
    assert kept is not None
    assert kept.text == "A lei nova muda a renda das pessoas."
    assert searcher.indexed_page("http://nowhere.test/") is None
    assert searcher.indexed_page("no address at all") is None
