"""Meaning: a small push for pages that speak of the same in other words (F10)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from teia.errors import CorruptFile
from teia.index.entry import IndexEntry
from teia.search.rank.semantic import Model, Models, load, save
from teia.search.rank.train_semantic import MIN_PAGES, train
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
    judge = model.similarity([word])
    assert judge is not None
    entries = pages()
    values = judge(np.array([entry.key for entry in entries], np.int64))
    return {entry.url.rpartition("/")[2]: float(value) for entry, value in zip(entries, values, strict=True)}


def test_words_that_keep_the_same_company_are_alike(model: Model) -> None:
    alike = similarity(model, "carro")
    assert min(alike[f"auto{n}"] for n in range(12)) > max(alike[f"bread{n}"] for n in range(24)) + 0.3
    assert all(-1.01 <= value <= 1.01 for value in alike.values())


def test_a_model_knows_nothing_of_words_it_has_not_seen(model: Model) -> None:
    assert model.similarity(["xyzzy"]) is None
    assert model.similarity([]) is None


def test_a_page_that_came_later_is_taken_for_an_average_one(model: Model) -> None:
    judge = model.similarity(["carro"])
    assert judge is not None
    known = [page(f"http://a.test/{name}", "").key for name in ("car1", "bread1", "bread2")]
    values = judge(np.array([*known, 12345], np.int64))
    assert values[3] == pytest.approx(np.median(values[:3]))
    assert judge(np.array([12345], np.int64)).tolist() == [0.0]


def test_the_same_pages_and_seed_give_the_same_model(model: Model) -> None:
    again = train(pages, seed=1, min_pages=10, axes=2)
    assert again is not None
    assert np.array_equal(again.vectors, model.vectors)


def test_a_small_collection_has_no_model() -> None:
    assert train(pages, seed=1) is None
    assert len(pages()) < MIN_PAGES
    assert train(list, seed=1, min_pages=0) is None
    assert train(lambda: [page(f"http://a.test/{n}", "") for n in range(20)], seed=1, min_pages=1) is None


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
