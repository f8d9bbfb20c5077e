"""The yardstick of search: the judged set is whole, and the measures agree with cases done by hand."""

from __future__ import annotations

import json
from collections import Counter
from math import log2
from pathlib import Path

import pytest

from bench.relevance import corpus, judged
from bench.relevance.__main__ import main
from bench.relevance.baseline import Baseline
from bench.relevance.corpus import MANUALS, Document, Entry, JudgedSet, digest_of
from bench.relevance.judged import Query
from bench.relevance.metrics import (
    average_precision,
    compare,
    ndcg_at_10,
    permutation_p,
    precision_at_10,
    recall_at_100,
    reciprocal_rank_at_10,
)
from bench.relevance.pool import candidates, rankings
from bench.relevance.report import answer, compare_with, groups, result, values_of
from bench.relevance.systems import SYSTEMS, by_text, monolingual
from teia.errors import ConfigError, MissingComponent, UsageError
from teia.records import Page

GRADES = {"a": 3, "b": 1, "c": 2, "d": 0}


def query(text: str, language: str = "en", **other: str) -> Query:
    values = {"id": "q", "kind": "topic", "half": "tune", "need": ""} | other
    return Query(language=language, text=text, **values)


def document(name: str, language: str, text: str, title: str = "") -> Document:
    return Document(name, language, Page(url=f"http://site/{name}", title=title, text=text))


# ---- the set --------------------------------------------------------------------------------------------------------


def test_the_committed_set_has_no_slip_of_the_pen() -> None:
    judged.check(judged.queries(), judged.judgements(), corpus.entries())


def test_there_are_as_many_queries_in_each_language_kind_and_half() -> None:
    counts = Counter((each.language, each.kind, each.half) for each in judged.queries())
    for kind in judged.KINDS:
        assert len({counts[language, kind, half] for language in ("en", "pt") for half in judged.HALVES}) == 1
    assert sum(counts.values()) >= 80


def test_topics_have_many_good_pages_and_known_pages_few() -> None:
    judgements = judged.judgements()
    relevant: dict[str, list[int]] = {kind: [] for kind in judged.KINDS}
    for each in judged.queries():
        relevant[each.kind].append(sum(grade > 0 for grade in judgements[each.id].values()))
    assert sum(relevant["topic"]) / len(relevant["topic"]) >= 5
    assert sum(relevant["known"]) / len(relevant["known"]) < 5


@pytest.mark.parametrize(
    ("grades", "words"),
    [
        ({"q": {"en": 0}}, "no relevant page"),
        ({"q": {"en": 1, "pt": 2}}, "not in the language"),
        ({"q": {"en": 1, "other": 0}}, "no such query, page or grade"),
        ({"q": {"en": 4}}, "no such query, page or grade"),
    ],
)
def test_a_wrong_judgement_stops_the_run(grades: dict[str, dict[str, int]], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        judged.check([query("x")], grades, [Entry("en", "en", ""), Entry("pt", "pt", "")])


def test_judging_a_page_twice_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "judgements.tsv").write_text("query\tdocument\tgrade\nq\ta\t1\nq\ta\t2\n", "utf-8")
    with pytest.raises(ConfigError, match="judges a twice"):
        judged.judgements(JudgedSet(tmp_path, {}, ()))


def test_the_set_of_manuals_has_sixty_queries_and_grades_only_pages_of_its_trees() -> None:
    queries, judgements = judged.queries(MANUALS), judged.judgements(MANUALS)
    named = {document for grades in judgements.values() for document in grades}
    judged.check(queries, judgements, [Entry(name, MANUALS.languages[name.split("/")[0]], "") for name in named])
    assert len(queries) >= 60
    assert not named & MANUALS.unwanted
    assert {each.half for each in queries} == {"test"}, "nothing may be tuned on it"


def test_without_a_list_all_pages_of_the_trees_are_the_set(tmp_path: Path) -> None:
    for name in ("en/a.html", "en/deep/b.html", "en/other.html", "en/note.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("<title>x</title>")
    (tmp_path / "en/c.html").symlink_to(tmp_path / "en/a.html")
    one = JudgedSet(tmp_path, {"book": tmp_path / "en"}, (), {"book": "en"}, frozenset({"book/other.html"}))
    assert corpus.entries(one) == [Entry("book/a.html", "en", ""), Entry("book/deep/b.html", "en", "")]
    assert not any(each.has_changed for each in corpus.collect(judged=one))


def test_systems_are_compared_with_their_own_earlier_values_by_query() -> None:
    values = {"teia": {"q": {"MAP": 0.6, "nDCG@10": 0.5}}, "new": {"q": {"MAP": 1.0, "nDCG@10": 1.0}}}
    found = compare_with({"teia": {"q": {"MAP": 0.5, "nDCG@10": 0.5}}}, [query("x")], values)
    assert list(found) == ["teia"]
    assert found["teia"]["MAP"]["all"]["change_percent"] == pytest.approx(20)


# ---- the measures ---------------------------------------------------------------------------------------------------


def test_average_precision_counts_what_was_not_found() -> None:
    assert average_precision(["d", "a", "x", "b"], GRADES) == pytest.approx((1 / 2 + 2 / 4) / 3)


def test_ndcg_rewards_the_best_page_first() -> None:
    ideal = 7 + 3 / log2(3) + 1 / log2(4)
    assert ndcg_at_10(["b", "a", "c"], GRADES) == pytest.approx((1 + 7 / log2(3) + 3 / log2(4)) / ideal)
    assert ndcg_at_10(["a", "c", "b"], GRADES) == pytest.approx(1)
    assert ndcg_at_10(["x"] * 10 + ["a"], GRADES) == 0


def test_the_other_measures_by_hand() -> None:
    ranking = ["d", "x", "c", "a"]
    assert precision_at_10(ranking, GRADES) == pytest.approx(2 / 10)
    assert recall_at_100(ranking, GRADES) == pytest.approx(2 / 3)
    assert reciprocal_rank_at_10(ranking, GRADES) == pytest.approx(1 / 3)
    assert reciprocal_rank_at_10([], GRADES) == 0


def test_what_comes_after_a_hundred_is_not_seen() -> None:
    ranking = [f"x{number}" for number in range(100)] + ["a"]
    assert average_precision(ranking, GRADES) == recall_at_100(ranking, GRADES) == 0


def test_the_permutation_test_is_exact_where_that_can_be_counted() -> None:
    """Five differences of one sign: of the 32 ways to sign them, two are as far from nought."""
    assert permutation_p([1, 1, 1, 1, 1]) == pytest.approx(2 / 32, abs=0.005)
    assert permutation_p([0.1, -0.1]) == 1
    assert permutation_p([0.0, 0.0]) == 1


def test_the_permutation_test_repeats() -> None:
    differences = [0.3, -0.1, 0.2, 0.05, -0.02, 0.4]
    assert permutation_p(differences, seed=7) == permutation_p(differences, seed=7)
    assert permutation_p(differences) < permutation_p([-value if value > 0.25 else value for value in differences])


def test_a_comparison_says_who_wins_and_by_how_much() -> None:
    found = compare([0.5, 0.5, 0.5], [0.6, 0.4, 0.5])
    assert (found.wins, found.losses, found.p) == (1, 1, 1)
    assert found.change_percent == pytest.approx(0)
    assert compare([0.2, 0.2], [0.3, 0.3]).change_percent == pytest.approx(50)


# ---- the pages and the rankings -------------------------------------------------------------------------------------


def test_pages_are_read_and_changed_ones_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "en").mkdir()
    body = b"<html><title>Disks</title><h1>Partitions</h1><p>How to divide a disk."
    (tmp_path / "en" / "disk.html").write_bytes(body)
    guide = JudgedSet(tmp_path, {"guide": tmp_path}, ())
    same, other = (
        corpus.collect([Entry("guide/en/disk.html", "en", digest)], guide)[0] for digest in (digest_of(body), "0" * 16)
    )
    assert (same.has_changed, other.has_changed) == (False, True)
    assert same.page.title == "Disks"
    assert "divide a disk" in same.page.text


PACKAGES = corpus.DEBIAN.packages


def test_a_missing_package_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingComponent, match=r"1 of 1 judged pages are not installed .*debian-handbook"):
        corpus.collect([Entry("guide/gone.html", "en", "")], JudgedSet(tmp_path, {"guide": tmp_path}, PACKAGES))


PAGES = [
    document("en/disk", "en", "Partitions of a disk are encrypted with a passphrase.", "Encryption"),
    document("en/mail", "en", "The mail server delivers letters.", "Mail"),
    document("pt/disco", "pt", "As partições do disco são criptografadas com uma senha.", "Criptografia"),
    document("pt/correio", "pt", "O servidor de correio entrega as mensagens.", "Correio"),
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("encrypting partition", "en/disk"),
        ("particao criptografada", "pt/disco"),
        ("PARTIÇÕES CRIPTOGRAFADAS", "pt/disco"),
        ("mensagem no correio", "pt/correio"),
    ],
)
def test_the_baseline_stems_and_folds_in_both_languages(text: str, expected: str) -> None:
    assert Baseline(PAGES).search(text, 10)[0] == expected


def test_the_baseline_answers_stop_words_and_signs_with_nothing() -> None:
    index = Baseline(PAGES)
    assert index.search("", 10) == index.search("the of ?!", 10) == []


def test_equal_pages_come_in_the_order_of_their_ids() -> None:
    twins = [document(name, "en", "the same words") for name in ("b", "c", "a")]
    assert Baseline(twins).search("same words", 10) == ["a", "b", "c"]


def test_monolingual_search_returns_no_other_language() -> None:
    pages = [document("en", "en", "kernel"), document("pt", "pt", "kernel")]
    assert monolingual(pages)(query("kernel", "pt"), 10) == ["pt"]


@pytest.mark.parametrize("system", ["teia", "words", "expanded"])
def test_teia_answers_with_the_ids_of_pages(system: str) -> None:
    search = SYSTEMS[system](PAGES)
    assert search(query("encrypting partition"), 10)[0] == "en/disk"
    assert search(query("particao criptografada", "pt"), 10)[0] == "pt/disco"
    assert search(query("?!"), 10) == []


def test_the_pool_finds_what_only_one_kind_of_ranking_finds() -> None:
    """`virtualised` and `virtualization` have different stems, but most of their letters in common."""
    pages = [document(f"en/{number}", "en", f"page number {number} about cats and dogs") for number in range(110)]
    pages.append(document("en/wanted", "en", "virtualization of machines"))
    found = candidates(pages, rankings(pages, "en"), "virtualised")
    assert found["en/wanted"] == ["letters"]


# ---- the report -----------------------------------------------------------------------------------------------------


def test_the_report_tells_pages_in_another_language_and_pages_nobody_judged() -> None:
    asked = query("disk")
    run = answer("one", by_text(lambda text, n: ["en/disk", "pt/disco", "en/mail", "en/disk"]), [asked])
    languages = {each.id: each.language for each in PAGES}
    values = values_of(run, [asked], {"q": {"en/disk": 3}}, languages)["q"]
    assert run.rankings["q"] == ["en/disk", "pt/disco", "en/mail"]
    assert values["MAP"] == 1
    assert values["foreign"] == pytest.approx(1 / 3)
    assert values["judged"] == pytest.approx(2 / 3)


def test_systems_are_compared_with_the_first_in_each_group() -> None:
    queries = [query("x", "en", id="e"), query("y", "pt", id="p", half="test")]
    judgements = {"e": {"a": 1}, "p": {"b": 1}}
    runs = [
        answer("old", lambda each, n: ["x", "a", "b"], queries),
        answer("new", lambda each, n: ["a", "x", "b"], queries),
    ]
    languages = {"a": "en", "b": "pt", "x": "en"}
    values = {run.name: values_of(run, queries, judgements, languages) for run in runs}
    found = result(runs, queries, values)
    assert list(groups(queries)) == ["all", "en", "pt", "topic", "tune", "test"]
    assert found["comparisons"]["new"]["MAP"]["en"]["change_percent"] == pytest.approx(100)
    assert found["comparisons"]["new"]["MAP"]["pt"]["change_percent"] == 0
    assert json.loads(json.dumps(found)) == found


def test_an_unknown_system_is_refused_in_one_line() -> None:
    with pytest.raises(UsageError, match="lucene cannot be measured; there are baseline"):
        main(["--systems", "baseline,lucene"])
