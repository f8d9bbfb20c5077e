"""Shards that are asked by octets: one letter is one question's way, and mostly all that a search needs (F8)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

import msgspec
import numpy as np
import pytest

from teia.clock import VirtualClock
from teia.index.entry import IndexEntry
from teia.index.repeated import Lines, number_of_line
from teia.index.union import UnionReader
from teia.search.rank.formula import Keys, Ranking
from teia.search.serve import wire_format
from teia.search.serve.remote_shards import ReceivedFacts, RemoteShard, narrow_range
from teia.search.serve.searcher import DEADLINE_S, Searcher, SearchOptions
from teia.search.serve.shard_server import ShardServer
from teia.search.serve.shards import LocalShard, Show
from teia.search.serve.wire_format import (
    BatchRequest,
    CandidatesReply,
    CandidatesRequest,
    EntriesRequest,
    FacetsRequest,
    ShardRequest,
    decode_reply,
    decode_request,
    encode,
)
from teia.search.show.results import Facts
from tests.index.pages import page
from tests.search.library import NOW_S, as_one, cells_of, urls

REPEATED = frozenset({number_of_line("Accept every cookie")})


class Known:
    """What a frontier and a rank file would know of any page."""

    def percentiles(self, keys: Keys, /) -> np.ndarray:
        return (keys % 7) / 10

    def facts(self, urls: Mapping[int, str], /) -> Mapping[int, Facts]:
        return {key: Facts(NOW_S, key % 5, None) for key in urls}

    def repeated_lines(self, hosts: Iterable[str], /) -> Mapping[str, Lines]:
        return dict.fromkeys(hosts, REPEATED)


class Post:
    """Carries questions to shards of this process, and keeps them."""

    def __init__(self, folder: Path, cells: int) -> None:
        self.questions: list[ShardRequest] = []
        self.lost: list[Future[bytes]] = []
        self.received = ReceivedFacts()
        self.readers = [UnionReader({f"cell {number}": folder / str(number)}) for number in range(cells)]
        self.shards = [self._shard(number, reader) for number, reader in enumerate(self.readers)]

    def _shard(self, number: int, reader: UnionReader) -> RemoteShard:
        end = ShardServer(LocalShard(f"cell {number}", reader), reader, VirtualClock(NOW_S), Known(), Known())

        def transport(question: bytes) -> Future[bytes]:
            self.questions.append(decode_request(question))
            future: Future[bytes] = Future()
            if self.arrives(self.questions[-1]):
                future.set_result(self.passed(end.answer(question)))
            else:
                self.lost.append(future)
            return future

        return RemoteShard(f"cell {number}", 1, transport, self.received)

    def arrives(self, question: ShardRequest) -> bool:
        """Whether a question is answered at all."""
        return True

    def passed(self, answer: bytes) -> bytes:
        """What becomes of an answer on its way."""
        return answer

    def searcher(self, deadline_s: float = DEADLINE_S) -> Searcher:
        return Searcher(
            self.shards,
            VirtualClock(NOW_S),
            ranking=Ranking(priors=self.received),
            facts=self.received,
            deadline_s=deadline_s,
        )

    def kinds(self) -> list[str]:
        return [type(question).__name__ for question in self.questions]


def pages_of(cell: int, count: int = 30) -> list[IndexEntry]:
    return [page(f"http://a{cell}.test/{n}", f"common words, {'common ' * (n % 9)} {cell} {n}") for n in range(count)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    cells_of(tmp_path, [pages_of(cell) for cell in range(3)])
    return tmp_path


@pytest.fixture
def post(folder: Path) -> Iterator[Post]:
    made = Post(folder, 3)
    yield made
    for reader in made.readers:
        reader.close()


def search_twice(searcher: Searcher, post: Post, text: str, options: SearchOptions | None = None) -> list[str]:
    """Search with words that are counted already; returns what was found."""
    searcher.search(text, options=options)
    post.questions.clear()
    return urls(searcher.search(text, options=options))


def test_a_search_is_one_question_to_each_shard(folder: Path, post: Post) -> None:
    """With its best pages a shard sends those that are likely to be shown, and what is known of them."""
    with (
        post.searcher() as many,
        Searcher(as_one(folder, 3), VirtualClock(NOW_S), ranking=Ranking(priors=Known())) as one,
    ):
        options = SearchOptions(grouped=False)
        found = search_twice(many, post, "common words", options)
        assert post.kinds() == ["CandidatesRequest"] * 3
        results, truth = (each.search("common words", options=options) for each in (many, one))
    assert len(found) == 10
    assert [round(hit.score, 5) for hit in results.hits] == [round(hit.score, 5) for hit in truth.hits]
    assert {hit.backlinks for hit in results.hits} <= set(range(5))
    assert all(hit.last_visit_s == NOW_S for hit in results.hits)


def test_facets_and_other_spellings_travel_in_the_same_letter(post: Post) -> None:
    with post.searcher() as many:
        search_twice(many, post, "common wrods", SearchOptions(facets=True))
    assert post.kinds()[:6] == ["CountsRequest"] * 3 + ["BatchRequest"] * 3  # that no page has a word is not remembered
    letter = post.questions[3]
    assert isinstance(letter, BatchRequest)
    kinds = [type(wire_format.decode_request(each)).__name__ for each in letter.requests]
    assert kinds == ["CandidatesRequest", "FacetsRequest", "WordsLikeRequest"]


def test_pages_that_were_not_expected_are_requested(tmp_path: Path) -> None:
    """All that is found lies in the smallest of three shards, of which three pages at most were expected."""
    rare = [page(f"http://r.test/{n}", f"zebra {n} {n * n} stripes") for n in range(10)]
    cells_of(tmp_path, [pages_of(0, 200), pages_of(1, 200), rare])
    post = Post(tmp_path, 3)
    with post.searcher() as many:
        found = search_twice(many, post, "zebra", SearchOptions(grouped=False))
    assert sorted(found) == sorted(each.url for each in rare)
    assert post.kinds() == ["CandidatesRequest"] * 3 + ["EntriesRequest"]
    (asked,) = [each for each in post.questions if isinstance(each, EntriesRequest)]
    assert 0 < len(asked.keys) < 10


def test_far_results_are_requested_when_it_is_known_which_they_are(post: Post) -> None:
    with post.searcher() as many:
        many.search("common", 10, 40)
    assert all(each.show is None for each in post.questions if isinstance(each, CandidatesRequest))


def test_pages_that_are_spelt_as_requested_come_with_the_word_that_they_are(tmp_path: Path) -> None:
    said = [page(f"http://s.test/{n}", f"{'Common' if n % 2 else 'common'} words {n} {n * 7}") for n in range(12)]
    cells_of(tmp_path, [said[:6], said[6:]])
    post = Post(tmp_path, 2)
    with post.searcher() as many:
        found = search_twice(many, post, '="Common"', SearchOptions(grouped=False))
    assert sorted(found) == sorted(each.url for each in said[1::2])
    assert post.kinds() == ["CandidatesRequest"] * 2 + ["ExactTextRequest"] * 2


class Damaging(Post):
    """Spoils pages that are sent along."""

    def passed(self, answer: bytes) -> bytes:
        if not isinstance(self.questions[-1], CandidatesRequest):
            return answer
        best = decode_reply(CandidatesReply, answer)
        assert best.pages is not None
        spoilt = msgspec.structs.replace(best.pages, entries=dict.fromkeys(best.pages.entries, b"\0"))
        return encode(CandidatesReply(best.total, best.rows, best.percentiles, spoilt))


def test_a_page_that_arrives_damaged_is_requested_again(folder: Path) -> None:
    post = Damaging(folder, 3)
    with post.searcher() as many:
        results = many.search("common")
    assert results.hits
    assert not results.is_partial
    assert "EntriesRequest" in post.kinds()


def test_answers_that_do_not_fit_are_requested_by_themselves(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire_format, "MAX_ANSWER_BYTES", 10)
    monkeypatch.setattr(wire_format, "MAX_PREFETCH_BYTES", 0)
    with post.searcher() as many:
        results = many.search("common", options=SearchOptions(facets=True))
    assert (results.total, len(results.hits)) == (90, 10)
    assert sum(results.facets["host"].values()) == 90
    assert post.kinds().count("FacetsRequest") == 3


@pytest.mark.heavy
@pytest.mark.parametrize("kind", [FacetsRequest, EntriesRequest])
def test_what_did_not_fit_is_waited_for_no_longer_than_the_query_may_take(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kind: type[ShardRequest]
) -> None:
    """Issue 7: a node that dies just then, too, gives partial results. For pages: the second half is never sent."""
    monkeypatch.setattr(wire_format, "MAX_ANSWER_BYTES", 10)
    monkeypatch.setattr(wire_format, "MAX_PREFETCH_BYTES", 0)

    class Dying(Post):
        def arrives(self, question: ShardRequest) -> bool:
            return not isinstance(question, kind) or (
                kind is EntriesRequest and self.kinds().count("EntriesRequest") <= 3
            )

    post = Dying(folder, 3)
    with post.searcher(deadline_s=0.0) as many:
        results = many.search("common", options=SearchOptions(facets=True))
    assert results.is_partial
    assert "no response in time" in results.warnings[0]
    assert post.lost
    assert all(each.cancelled() for each in post.lost), "nobody answers what nobody waits for"


def test_a_letter_of_which_answers_are_missing_is_no_answer(folder: Path) -> None:
    class Forgetting(Post):
        def passed(self, answer: bytes) -> bytes:
            is_all = isinstance(self.questions[-1], BatchRequest)
            return encode(wire_format.BatchReply([b"\x00"])) if is_all else answer

    with Forgetting(folder, 3).searcher() as many:
        results = many.search("common", options=SearchOptions(facets=True))
    assert (results.total, results.is_partial) == (0, True)
    assert "its response does not match the request" in results.warnings[0]


@pytest.mark.parametrize(
    ("share", "first", "last", "expected"),
    [(1.0, 0, 10, (0, 10)), (0.5, 0, 10, (0, 9)), (0.25, 0, 10, (0, 6)), (0.25, 10, 20, (0, 9)), (0.0, 0, 10, (0, 0))],
)
def test_a_shard_sends_as_many_pages_as_its_share_makes_likely(
    share: float, first: int, last: int, expected: Sequence[int]
) -> None:
    show = narrow_range(Show(first, last), share)
    assert (show.first, show.last) == expected


def test_received_facts_about_pages_are_kept_for_as_many_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teia.search.serve.remote_shards.MAX_CACHED", 10)
    received = ReceivedFacts()
    for start in range(0, 100, 10):
        received.ranks.store((key, 1.0) for key in range(start, start + 10))
    kept = [key for key in range(100) if received.percentiles(np.array([key]))[0] == 1.0]
    assert kept[-1] == 99
    assert 10 <= len(kept) <= 40


def test_lines_that_a_host_repeats_come_with_its_pages(tmp_path: Path) -> None:
    text = "Accept every cookie\nA cookie that somebody wants to eat is baked first."
    cells_of(tmp_path, [[page("http://a.test/", text)]])
    post = Post(tmp_path, 1)
    with post.searcher() as searcher:
        (hit,) = searcher.search("cookie").hits
    assert hit.snippet.plain() == "A cookie that somebody wants to eat is baked first."
    post.readers[0].close()
