"""Meaning: a small push for pages that speak of the same in other words (F10)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from teia.errors import CorruptFile
from teia.index.entry import IndexEntry
from teia.index.stems import Words
from teia.index.training_words import Bags, bag_of
from teia.search.query.analysis import stem_of
from teia.search.rank.formula import Weights
from teia.search.rank.semantic import Model, Models, add_meaning, load, save
from teia.search.rank.train_semantic import train, train_on
from teia.urls import key_of
from tests.index.pages import page
from tests.search.library import found, searcher_over

CARS = "motor roda volante freio garagem"
BREAD = "farinha forno fermento massa padeiro"


def pages() -> list[IndexEntry]:
    cars = [page(f"http://a.test/car{n}", f"carro {CARS} numero{n}") for n in range(12)]
    autos = [page(f"http://a.test/auto{n}", f"automóvel {CARS} numero{n}") for n in range(12)]
    bread = [page(f"http://a.test/bread{n}", f"pão {BREAD} numero{n}") for n in range(24)]
    return [*cars, *autos, *bread]


@pytest.fixture(scope="module")
def model() -> Model:
    trained = train(pages, seed=1, min_pages=10, axes=2)
    assert trained is not None
    return trained


def similarity(model: Model, word: str) -> dict[str, float]:
    position = model.position_of([word])
    assert position is not None
    entries = pages()
    vectors, known = model.positions(np.array([entry.key for entry in entries], np.int64))
    assert known.all()
    values = vectors @ position
    return {entry.url.rpartition("/")[2]: float(value) for entry, value in zip(entries, values, strict=True)}


def test_words_that_keep_the_same_company_are_alike(model: Model) -> None:
    alike = similarity(model, "carro")
    assert min(alike[f"auto{n}"] for n in range(12)) > max(alike[f"bread{n}"] for n in range(24)) + 0.3
    assert all(-1.01 <= value <= 1.01 for value in alike.values())


def test_a_model_knows_nothing_of_words_it_has_not_seen(model: Model) -> None:
    assert model.meaning(["xyzzy"], Weights()) is None
    assert model.meaning([], Weights()) is None


def test_a_page_that_came_later_is_taken_for_an_average_one(model: Model) -> None:
    added = model.meaning(["carro"], Weights())
    assert added is not None
    known = [page(f"http://a.test/{name}", "").key for name in ("car1", "bread1", "bread2")]
    values = added(np.array([*known, 12345], np.int64), np.array([0.9, 0.8, 0.7, 1.0]))
    assert values[3] == pytest.approx(np.median(values[:3]))
    assert added(np.array([12345], np.int64), np.ones(1)).tolist() == [0.0]


def test_the_same_pages_and_seed_give_the_same_model(model: Model) -> None:
    again = train(pages, seed=1, min_pages=10, axes=2)
    assert again is not None
    assert np.array_equal(again.vectors, model.vectors)


def test_a_small_collection_has_no_model() -> None:
    assert train(pages, seed=1, min_pages=49) is None
    assert train(list, seed=1) is None
    assert train(lambda: [page(f"http://a.test/{n}", "") for n in range(20)], seed=1) is None


def test_a_model_is_kept_and_read_again(model: Model, tmp_path: Path) -> None:
    save(model, tmp_path, 1_700_000_000.0)
    kept = load(tmp_path)
    assert kept is not None
    assert kept.stems == model.stems
    assert similarity(kept, "carro") == pytest.approx(similarity(model, "carro"))
    assert kept.pages == 48


def test_a_new_model_takes_the_place_of_the_old_one(model: Model, tmp_path: Path) -> None:
    models = Models(tmp_path)
    assert models.current() is None
    save(model, tmp_path, 1_700_000_000.0)
    first = models.current()
    assert first is not None
    assert models.current() is first
    save(model, tmp_path, 1_700_000_001.0)
    assert models.current() is not first
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 1


def test_a_model_of_another_version_is_not_used(model: Model, tmp_path: Path) -> None:
    save(model, tmp_path, 1.0)
    (tmp_path / "current.json").write_text('{"version": 99, "folder": "x"}')
    assert load(tmp_path) is None


def test_a_damaged_model_is_named(model: Model, tmp_path: Path) -> None:
    save(model, tmp_path, 1.0)
    (tmp_path / "current.json").write_text("{")
    with pytest.raises(CorruptFile, match="semantic model cannot be read"):
        load(tmp_path)


def test_meaning_reorders_what_words_have_found(model: Model, tmp_path: Path) -> None:
    """Both pages have the word once; the one about cars is what the query is about. By words alone the key decides."""
    bread, cars = sorted(("x", "y"), key=lambda name: key_of(f"http://a.test/{name}"))
    extra = (
        page(f"http://a.test/{cars}", f"ferramenta {CARS} numero100"),
        page(f"http://a.test/{bread}", f"ferramenta {BREAD} numero100"),
    )
    everything = [*pages(), *extra]
    trained = train(lambda: everything, seed=1, min_pages=10, axes=2)
    without = searcher_over(tmp_path / "without", *everything)
    with_meaning = searcher_over(tmp_path / "with", *everything, model=lambda: trained)
    by_words, ranks = (found(each, "ferramenta carro", 30) for each in (without, with_meaning))
    assert set(by_words) == set(ranks)
    assert by_words.index(bread) < by_words.index(cars)
    assert ranks.index(cars) < ranks.index(bread)


def test_the_best_pages_show_what_a_query_means() -> None:
    """The query lies between two subjects; the best page by words is on the first, so a page on that gains more."""
    first, second = np.eye(2, dtype=np.float32)
    positions = np.array([first, first, second], np.float32)
    between = (first + second) / np.float32(2**0.5)
    added = add_meaning(np.array([1.0, 0.2, 0.2]), positions, between, Weights(neighbours=0.0))
    assert added[1] > added[2] + 0.1
    unmoved = add_meaning(np.array([1.0, 0.2, 0.2]), positions, between, Weights(neighbours=0.0, feedback=0.0))
    assert unmoved[1] == pytest.approx(unmoved[2])


def test_a_page_takes_a_part_of_its_score_from_the_pages_like_it() -> None:
    first, second = np.eye(2, dtype=np.float32)
    positions = np.array([first, first, second, second], np.float32)
    weights = Weights(semantics=0.0, neighbours=0.5)
    added = add_meaning(np.array([1.0, 0.5, 0.5, 0.0]), positions, first, weights)
    assert added.tolist() == pytest.approx([-0.25, 0.25, -0.25, 0.25])


def misleading() -> list[IndexEntry]:
    """Pages about cars whose title words are, everywhere else, on slightly longer pages about bread."""
    titles = [(f"unico{n}abc", f"raro{n}xyz") for n in range(60)]
    about = [page(f"http://a.test/{n}", f"{a} {b} {CARS} {CARS}", f"{a} {b}") for n, (a, b) in enumerate(titles)]
    others = [
        page(f"http://b.test/{n}", " ".join([BREAD, *(" ".join(titles[(n + 15 * k) % 60]) for k in range(4))]))
        for n in range(60)
    ]
    return [*about, *others]


def test_a_model_with_which_held_back_titles_are_found_worse_is_not_used(model: Model, tmp_path: Path) -> None:
    harmful = train(misleading, seed=1, min_pages=10, axes=2)
    assert harmful is not None
    assert model.is_helpful
    assert not harmful.is_helpful
    assert harmful.meaning(["farinha"], Weights()) is None
    save(harmful, tmp_path, 1.0)
    kept = load(tmp_path)
    assert kept is not None
    assert not kept.is_helpful, "or it would be used after a restart"


@pytest.mark.parametrize("memory_bytes", [1 << 20, 20_000])
def test_axes_come_from_a_sample_and_positions_are_of_all_pages(
    monkeypatch: pytest.MonkeyPatch, memory_bytes: int
) -> None:
    """Whether the words of all pages are in memory or not."""
    monkeypatch.setattr("teia.search.rank.train_semantic.MAX_TRAINED", 30)
    monkeypatch.setattr("teia.search.rank.train_semantic.Bags", lambda: Bags(memory_bytes))
    trained = train(pages, seed=1, min_pages=10, axes=2)
    assert trained is not None
    assert trained.pages == 48
    alike = similarity(trained, "carro")
    assert min(alike[f"car{n}"] for n in range(12)) > max(alike[f"bread{n}"] for n in range(24)) + 0.3


def test_a_model_does_not_depend_on_the_order_in_which_pages_came(model: Model) -> None:
    words, bags = Words(), Bags()
    for entry in reversed(pages()):
        bags.add(entry.key, bag_of(entry, words))
    other = train_on(bags, words, seed=1, min_pages=10, axes=2)
    assert other is not None
    assert other.stems == model.stems
    assert np.array_equal(other.keys, model.keys)
    assert np.array_equal(other.vectors, model.vectors)


def test_pages_with_the_same_words_have_one_position() -> None:
    """And count as one page: a site may show a page under many addresses."""
    copies = [page(f"http://a.test/copy{n}", f"automóvel {CARS} numero1 unico") for n in range(20)]
    trained = train(lambda: [*pages(), *copies], seed=1, min_pages=10, axes=2)
    assert trained is not None
    assert trained.pages == 68
    vectors, known = trained.positions(np.array([entry.key for entry in copies], np.int64))
    assert known.all()
    assert (vectors == vectors[0]).all()
    assert stem_of("unico") not in trained.stems, "one page alone has this word"


def test_a_position_takes_an_octet_for_each_axis(model: Model) -> None:
    assert model.vectors.nbytes == 2 * model.pages
    assert model.axes.nbytes == 2 * len(model.stems)
