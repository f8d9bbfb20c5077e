"""The stems of indexed pages, kept for a training."""

from __future__ import annotations

from teia.index.page_texts import RecentTexts
from teia.index.stems import shared_words
from teia.index.training_words import Bag, Bags, bag_of

from .pages import page

ONE, OTHER = Bag(b"abcd", b"a", b""), Bag(b"efgh", b"a", b"")


def test_pages_with_the_same_words_share_a_bag() -> None:
    bags = Bags()
    for key, bag in ((1, ONE), (2, OTHER), (3, Bag(*ONE))):
        bags.add(key, bag)
    assert [bags.bags[bags.pages[key]] for key in (1, 2, 3)] == [ONE, OTHER, ONE]
    assert len(bags.bags) == 2


def test_a_page_has_the_bag_that_came_last() -> None:
    bags = Bags()
    bags.add(1, ONE)
    bags.add(1, OTHER)
    assert bags.bags[bags.pages[1]] == OTHER
    bags.remove(1)
    bags.remove(2)
    assert not bags.pages


def test_bags_take_little_memory() -> None:
    bags = Bags(10_000)
    for key in range(10):
        bags.add(key, Bag(key.to_bytes(4), b"a", b""))
    assert len(bags.pages) == 10
    for key in range(10, 100):
        bags.add(key, Bag(key.to_bytes(4), b"a", b""))
    assert bags.is_full
    assert not bags.pages
    assert not bags.bags


def test_a_page_that_is_indexed_has_the_same_bag_as_one_that_is_read_again() -> None:
    entry = page("http://books.test/", "The books of the library, and a book", title="Books")
    bag = RecentTexts().of(entry).bag
    assert bag == bag_of(entry, shared_words())
    names = shared_words().stems()
    numbers = memoryview(bag.stems).cast("I")
    assert dict(zip((names[number] for number in numbers), bag.counts, strict=True))["book"] == 3
