"""The index of a cell: what is put in is found, what changes is replaced, and a crash loses nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tantivy import Query

from teia.errors import StoreError
from teia.index import cell as cell_module
from teia.index.cell import CellIndex, parent_names
from teia.index.entry import IndexEntry
from teia.index.languages import language_bit
from teia.index.plurals import singular
from teia.index.position import POSITION_FILE, read_position
from teia.index.schema import ROOT, folding_analyser, stemming_analyser

from .pages import page

CHAPTER = "http://books.test/chapter"


@pytest.fixture
def index(tmp_path: Path) -> CellIndex:
    return CellIndex(tmp_path / "index")


def found(index: CellIndex, field: str, term: str | int) -> list[IndexEntry]:
    searcher = index.searcher()
    hits = searcher.search(Query.term_query(index.schema, field, term), limit=100).hits
    return [index.entry(searcher, address) for _, address in hits]


def urls(index: CellIndex, word: str, field: str = "all") -> list[str]:
    (term,) = (
        stemming_analyser().analyze(singular(word))
        if field in {"all", "head", "anchor"}
        else folding_analyser().analyze(word)
    )
    return sorted(entry.url for entry in found(index, field, term))


def test_a_page_is_found_after_the_commit_and_not_before(index: CellIndex) -> None:
    index.put(page(CHAPTER, "an ordinary sentence"))
    assert urls(index, "sentence") == []
    index.commit(1)
    assert urls(index, "sentence") == [CHAPTER]
    assert found(index, "all", "sentenc")[0] == page(CHAPTER, "an ordinary sentence")


def test_a_page_that_changes_is_replaced(index: CellIndex) -> None:
    index.put(page(CHAPTER, "the first edition"))
    index.commit(1)
    index.put(page(CHAPTER, "the second edition"))
    index.commit(2)
    assert urls(index, "first") == []
    assert urls(index, "second") == [CHAPTER]
    assert index.searcher().num_docs == 1


def test_a_page_put_twice_before_a_commit_is_there_once(index: CellIndex) -> None:
    index.put(page(CHAPTER, "early"))
    index.put(page(CHAPTER, "late"))
    index.commit(1)
    assert urls(index, "early") == []
    assert urls(index, "late") == [CHAPTER]


def test_a_page_that_is_removed_is_gone(index: CellIndex) -> None:
    entry = page(CHAPTER, "soon gone")
    index.put(entry)
    index.commit(1)
    index.remove(entry.key)
    index.commit(2)
    assert urls(index, "gone") == []
    index.remove(entry.key)
    index.commit(3)
    assert index.position == 3


def test_a_list_of_deleted_pages_that_a_crash_left_does_not_stop_the_next_commit(tmp_path: Path) -> None:
    """tantivy does not write over a file, and the number in its name is the same after the crash."""
    index = CellIndex(tmp_path / "index")
    for name in ("one", "two"):
        index.put(page(f"{CHAPTER}/{name}", "a sentence"))
    index.commit(1)
    index.close()
    shutil.copytree(tmp_path / "index", tmp_path / "crashed")
    gone = page(f"{CHAPTER}/one", "a sentence").key
    index = CellIndex(tmp_path / "index")
    index.remove(gone)
    index.commit(2)
    index.close()
    (deleted,) = (tmp_path / "index").glob("*.del")
    shutil.copy(deleted, tmp_path / "crashed")
    again = CellIndex(tmp_path / "crashed")
    again.remove(gone)
    again.commit(2)
    assert urls(again, "sentence") == [f"{CHAPTER}/two"]


def test_the_position_is_that_of_the_last_commit(index: CellIndex, tmp_path: Path) -> None:
    assert index.position == 0
    index.put(page(CHAPTER, "words"))
    assert index.position == 0
    index.commit(17)
    index.close()
    assert CellIndex(tmp_path / "index").position == 17
    assert read_position(tmp_path / "index") == 17


def test_what_was_not_committed_is_forgotten_on_closing(index: CellIndex, tmp_path: Path) -> None:
    index.put(page(CHAPTER, "words"))
    index.commit(1)
    index.put(page("http://books.test/other", "words"))
    index.close()
    assert urls(CellIndex(tmp_path / "index"), "words") == [CHAPTER]


def test_a_crash_between_commit_and_position_repeats_changes_without_harm(
    index: CellIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(5, "the machine is gone")

    index.put(page(CHAPTER, "words"))
    index.commit(1)
    index.put(page("http://books.test/other", "words"))
    with monkeypatch.context() as patched:
        patched.setattr(cell_module, "write_position", fail)
        with pytest.raises(StoreError, match="the machine is gone"):
            index.commit(2)
    index.close()
    again = CellIndex(tmp_path / "index")
    assert again.position == 1
    again.put(page("http://books.test/other", "words"))
    again.commit(2)
    assert urls(again, "words") == [CHAPTER, "http://books.test/other"]
    assert again.searcher().num_docs == 2


def test_an_index_of_another_version_is_made_again_and_the_user_is_told(
    index: CellIndex, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    index.put(page(CHAPTER, "words"))
    index.commit(9)
    index.close()
    file = tmp_path / "index" / POSITION_FILE
    file.write_text(json.dumps(json.loads(file.read_text()) | {"version": 0}))
    again = CellIndex(tmp_path / "index")
    assert again.position == 0
    assert again.searcher().num_docs == 0
    assert "rebuilt from the archive" in caplog.text


def test_only_pages_that_are_there_are_deleted(index: CellIndex) -> None:
    """Seen: for a deletion of a page that was never there, tantivy looked into every segment."""
    for number in range(3):
        index.put(page(f"{CHAPTER}/{number}", "words"))
    index.remove(17)
    index.commit(1)
    # tantivy numbers its operations: three additions and the commit.
    assert json.loads((index.folder / "meta.json").read_bytes())["opstamp"] == 4
    index.put(page(f"{CHAPTER}/0", "other words"))
    index.commit(2)
    assert index.searcher().num_docs == 3


# ---- words ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "typed"),
    [
        ("A informação é pública", "informacao"),
        ("informações públicas", "informação"),
        ("as declarações anuais", "declaração"),
        ("os servidores", "servidor"),
        ("os niveis e os papéis", "nível"),
        ("as imagens", "imagem"),
        ("declaracao sem acento", "declaração"),
        ("the running dogs", "dog"),
        ("many libraries", "library"),
        ("IMPOSTOS", "imposto"),
    ],
)
@pytest.mark.parametrize("language", ["pt", "en", "es", ""])
def test_accents_case_and_plurals_do_not_matter_whatever_the_page_says_its_language_is(
    index: CellIndex, written: str, typed: str, language: str
) -> None:
    index.put(page(CHAPTER, written, language=language))
    index.commit(1)
    assert urls(index, typed) == [CHAPTER]


def test_words_are_kept_as_they_are_in_the_exact_field(index: CellIndex) -> None:
    index.put(page(CHAPTER, "Sistemas de Busca", title="O Título"))
    index.commit(1)
    assert urls(index, "sistemas", "exact") == [CHAPTER]
    assert urls(index, "de", "exact") == [CHAPTER]
    assert urls(index, "sistema", "exact") == []
    assert urls(index, "titulo", "title") == [CHAPTER]
    assert urls(index, "busca", "title") == []


def test_words_on_links_find_the_page_they_lead_to(index: CellIndex) -> None:
    index.put(page(CHAPTER, "words"), ["the annual report", "relatório anual"])
    index.commit(1)
    assert urls(index, "reports", "anchor") == [CHAPTER]
    assert urls(index, "relatorios", "anchor") == [CHAPTER]


def test_title_and_headings_are_text_too(index: CellIndex) -> None:
    index.put(page(CHAPTER, "", "Encryption", headings=("Keys", "Disks")))
    index.commit(1)
    for word in ("encryption", "keys", "disk"):
        assert urls(index, word) == urls(index, word, "head") == [CHAPTER]


# ---- pages of every kind --------------------------------------------------------------------------------------------


def test_a_page_without_anything_can_be_indexed(index: CellIndex) -> None:
    index.put(page(CHAPTER, ""))
    index.commit(1)
    assert [entry.url for entry in found(index, "host", "books.test")] == [CHAPTER]


def test_a_page_of_twenty_thousand_words_is_indexed_to_its_end(index: CellIndex) -> None:
    text = " ".join(f"word{number}" for number in range(20_000))
    index.put(page(CHAPTER, text))
    index.commit(1)
    assert urls(index, "word19999") == [CHAPTER]


def test_pages_with_the_same_text_are_both_there(index: CellIndex) -> None:
    index.put(page(CHAPTER, "the same"))
    index.put(page("http://mirror.test/chapter", "the same"))
    index.commit(1)
    assert len(urls(index, "same")) == 2


def test_a_page_is_within_every_name_above_its_host(index: CellIndex) -> None:
    index.put(page("http://www.camara.sp.gov.br/", "x"))
    index.commit(1)
    for name in ("www.camara.sp.gov.br", "sp.gov.br", "br", ROOT):
        assert len(found(index, "within", name)) == 1
    assert found(index, "within", "camara") == []


def test_only_the_root_is_above_an_address() -> None:
    assert parent_names("127.0.0.1") == ["127.0.0.1", ROOT]
    assert parent_names("[::1]") == ["[::1]", ROOT]


def test_every_page_counts_as_one_within_the_root_deleted_ones_too(index: CellIndex) -> None:
    for number in range(5):
        index.put(page(f"{CHAPTER}/{number}", "x"))
    index.commit(1)
    index.remove(page(f"{CHAPTER}/3", "x").key)
    index.commit(2)
    searcher = index.searcher()
    assert (searcher.num_docs, searcher.doc_freq("within", ROOT)) == (4, 5)


def test_the_languages_of_a_page_are_bits_that_can_be_read_quickly(index: CellIndex) -> None:
    index.put(page(CHAPTER, "short", language="pt"))
    index.commit(1)
    searcher = index.searcher()
    (hit,) = searcher.search(Query.all_query(), limit=1).hits
    assert searcher.fast_field_values("languages", [hit[1]]) == [language_bit("pt")]
