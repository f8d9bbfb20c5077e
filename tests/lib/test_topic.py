"""What a topic is learnt from, and what it is found in (A6)."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from teia.lab.text.prose import LANGUAGES
from teia.lib.topic import MAX_WORDS, TOPIC, TopicModel, learn_topic, stems
from teia.parse.text.normal import normalised

STARS = [
    "the telescope shows a galaxy with many stars and a dark nebula near it",
    "astronomers watch the planets and the comets with a telescope in the desert",
    "a star in that galaxy is older than the sun and all its planets",
]
BREAD = [
    "the oven shows when the bread with many seeds is dark and near its end",
    "bakers knead the dough and leave it in the warm kitchen with flour",
    "a loaf of rye in that oven is older than the dough and all its flour",
]


def relevant(model: TopicModel, text: str) -> bool:
    judged = model.judge(text)
    assert judged is not None
    return judged.score >= 50


def test_words_alone_are_enough_to_find_a_page_that_holds_some_of_them() -> None:
    model = learn_topic(["telescope", "galaxies", "planet"], [], {})
    assert all(relevant(model, text) for text in STARS)
    assert not any(relevant(model, text) for text in BREAD)


def test_one_word_among_hundreds_is_not_a_topic() -> None:
    model = learn_topic(["telescope", "galaxies", "planet"], [], {})
    filler = " ".join(f"{a}{b}{c}ling" for a in "bcdfg" for b in "aeiou" for c in "klmnprst")
    assert not relevant(model, f"{filler} telescope")


def test_examples_are_distinguished_from_other_topics_in_the_same_language() -> None:
    model = learn_topic([], STARS[:2], {"bread": BREAD[:2]})
    assert relevant(model, STARS[2])
    assert not relevant(model, BREAD[2])
    judged = model.judge(BREAD[2])
    assert judged is not None
    assert model.classes[judged.kind] == "bread"


def test_what_is_like_no_class_is_called_so() -> None:
    model = learn_topic([], STARS, {"bread": BREAD})
    judged = model.judge("une phrase francaise sur quelque chose entierement autre")
    assert judged is not None
    assert judged.kind == len(model.classes)
    assert judged.score < 20


def test_words_that_all_examples_share_say_nothing() -> None:
    model = learn_topic([], STARS, {"bread": BREAD})
    common, own = model.weights["the"], model.weights["galaxy"]
    assert abs(common[TOPIC]) < abs(own[TOPIC]) / 2


def test_each_word_counts_once() -> None:
    model = learn_topic(["telescope"], [], {})
    assert model.judge("telescope and some other words here") == model.judge(
        "telescope telescope telescope and some other words here words"
    )


def test_a_text_without_words_is_not_judged() -> None:
    model = learn_topic(["telescope"], [], {})
    assert model.judge("") is None
    assert model.judge("12 34 -- ab") is None


def test_words_are_cut_so_that_their_forms_agree_and_ideographs_are_words() -> None:
    assert stems("computer computers computing") == {"comput"}
    assert stems("望遠鏡 abc") == {"望", "遠", "鏡", "abc"}


def test_the_same_examples_in_another_order_give_the_same_model() -> None:
    one = learn_topic(["telescope", "galaxy"], STARS, {"bread": BREAD, "sand": ["sand and sea"]})
    other = learn_topic(["galaxy", "telescope"], STARS[::-1], {"sand": ["sand and sea"], "bread": BREAD[::-1]})
    assert one == other
    assert list(one.weights) == sorted(one.weights)


def test_a_model_stays_small_and_keeps_the_words_it_was_given() -> None:
    chance = random.Random(1)
    letters = "bcdfglmnprst"
    texts = [" ".join("".join(chance.choices(letters, k=6)) for _ in range(300)) for _ in range(20)]
    model = learn_topic(["telescope"], texts, {"others": ["sand and sea"]})
    assert len(model.weights) == MAX_WORDS
    assert "telesc" in model.weights


@given(st.text())
def test_any_text_gets_a_score_of_a_hundred_or_less(text: str) -> None:
    judged = learn_topic(["telescope"], STARS, {"bread": BREAD}).judge(text)
    assert judged is None or (0 <= judged.score <= 100 and 0 <= judged.kind <= 2)


def test_topics_of_the_lab_are_distinguished_in_both_languages() -> None:
    """Half of each topic's sentences to learn from, the other half to judge."""
    chance = random.Random(2)
    seen: dict[str, list[str]] = {}
    unseen: dict[str, list[str]] = {}
    for language in LANGUAGES.values():
        for name, topic in language.topics.items():
            said = [f"{subject} {deed}" for subject in topic.subjects for deed in topic.deeds]
            chance.shuffle(said)
            texts = [normalised(" ".join(said[start : start + 12])) for start in range(0, 96, 12)]
            seen.setdefault(name, []).extend(texts[:4])
            unseen.setdefault(name, []).extend(texts[4:])
    for name in seen:
        model = learn_topic(
            [], seen[name], {"others": [text for other in seen if other != name for text in seen[other]]}
        )
        assert all(relevant(model, text) for text in unseen[name])
        assert not any(relevant(model, text) for other in unseen if other != name for text in unseen[other])
