"""The language a reader wants, decided here for the command line, the API and the web pages.

    1. An explicit choice: `lang:` in the query, `--lang`, the parameter `lang`. It decides.
    2. The query's own words. The pages that contain a word, as it is written, show its language: *modules* is on
       English pages, *módulos* on Portuguese ones, and *backup* on both alike, so that it is no evidence. The
       likelihood of the words is computed for each language (naive Bayes). Languages of few pages are left out,
       because they may be detection errors, unless 3. or a question word names them.
       Question words are on every page and not counted, but *how to* is English and *como* is not: each counts for
       the languages that it belongs to.
    3. The languages the reader is known to read: the header `Accept-Language`, or LC_ALL, LC_MESSAGES, LANG. They
       count as much as one word of little evidence, so they decide where the words do not. Without them all
       languages are equal at first.

Ranking then prefers pages that can be read in a likely language, gently: see search/rank/formula.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import exp, log

from teia.search.query.question_words import is_question_word, question_language
from teia.search.query.tree import Query, wanted_words
from teia.search.rank.statistics import EVERY_PAGE

MAX_WORDS = 8
MIN_PAGES, MIN_SHARE = 20, 0.02
"""Least number of pages of a language that counts, and its least share of all."""

SMOOTHING_PAGES = 20
"""Number of pages added to each language, in which each word is as frequent as over all."""

Shares = Mapping[str, float]
"""Likelihood of each language, the likeliest being 1; a language that is not listed has none."""


QUESTION_ODDS = 20.0
"""Factor by which each question word of another language makes a language less likely."""

READER_ODDS = 10.0
"""Factor by which a language the reader is not known to read is less likely.

Of those the reader reads, each is less likely by this factor than the one before.
"""

MAX_ACCEPTED = 10
_LIKE_PORTUGUESE = frozenset({"pt", "gl", "es", "ca", "it", "fr", "ro"})
"""Languages that share most Portuguese question words, or similar ones: *que* and *como* count for all of them."""


def content_words(query: Query) -> tuple[str, ...]:
    """Return the words that may reveal the language; question words are too frequent to be counted for it."""
    return tuple(word for word in wanted_words(query) if not is_question_word(word))[:MAX_WORDS]


def question_languages(query: Query) -> tuple[str, ...]:
    """Return the languages of the question words, one for each, where it belongs to one only."""
    return tuple(filter(None, map(question_language, wanted_words(query))))[:MAX_WORDS]


def likely_languages(
    words: Iterable[str],
    pages: Mapping[str, Mapping[str, int]],
    asked_in: Sequence[str] = (),
    reader_languages: Sequence[str] = (),
) -> Shares:
    """Return the likelihood of each language; empty without evidence.

    `pages` is the number of pages of each language that have a word, `asked_in` the languages of question words,
    `reader_languages` those that the reader is known to read, the best first.
    """
    all_pages = pages.get(EVERY_PAGE, {})
    total = sum(all_pages.values())
    least = max(MIN_PAGES, MIN_SHARE * total)
    named = {*asked_in, *reader_languages}
    has_evidence = bool(named)
    logs = {language: 0.0 for language, n in all_pages.items() if language and (n >= least or language in named)}
    for word in words:
        having = pages.get(word, {})
        share = sum(having.values()) / total if total else 0.0
        # A word that no page has is no evidence for any language.
        if share == 0:
            continue
        has_evidence = True
        for language in logs:
            # Smoothed towards the word's share over all pages: one page of a rare language must not decide.
            likely = having.get(language, 0) + SMOOTHING_PAGES * share
            logs[language] += log(likely / (all_pages[language] + SMOOTHING_PAGES))
    if not logs:  # too few pages of any language for their words to count
        logs = {language: 0.0 for language in all_pages if language} if has_evidence else {}
    if not has_evidence or not logs:
        return {}
    for language_of_question in asked_in:
        for language in logs:
            if not _fits_question(language, language_of_question):
                logs[language] -= log(QUESTION_ODDS)
    for language in logs if reader_languages else ():
        position = reader_languages.index(language) if language in reader_languages else len(reader_languages)
        logs[language] -= position * log(READER_ODDS)
    best = max(logs.values())
    return {language: exp(value - best) for language, value in logs.items()}


def _fits_question(language: str, language_of_question: str) -> bool:
    return language == language_of_question or (language_of_question == "pt" and language in _LIKE_PORTUGUESE)


def accepted_languages(header: str) -> tuple[str, ...]:
    """Return the languages of an `Accept-Language` header, the most wanted first, without the refused ones."""
    found: dict[str, float] = {}
    for each in header.split(",")[:MAX_ACCEPTED]:
        tag, _, rest = each.strip().partition(";")
        language = tag.strip().partition("-")[0].lower()
        weight = _weight(rest)
        # `q=0` refuses a language, and `*` names none (RFC 9110, 12.4.2 and 12.5.4).
        if language.isalpha() and weight > 0:
            found[language] = max(weight, found.get(language, 0.0))
    return tuple(sorted(found, key=lambda language: -found[language]))


def _weight(parameter: str) -> float:
    name, _, value = parameter.strip().partition("=")
    if name.strip().lower() != "q":
        return 1.0
    try:
        return min(1.0, max(0.0, float(value)))
    except ValueError:
        return 0.0


def environment_languages(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the languages that a user's environment names: LANGUAGE, then the first of LC_ALL, LC_MESSAGES, LANG."""
    locale = next((environ[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if environ.get(name)), "")
    # As gettext does: without a locale, LANGUAGE is ignored.
    if _code(locale) in {"", "c", "posix"}:
        return ()
    listed = environ.get("LANGUAGE", "").split(":")[:MAX_ACCEPTED]
    found = [code for code in map(_code, (*listed, locale)) if code.isalpha() and code not in {"c", "posix"}]
    return tuple(dict.fromkeys(found))


def _code(locale: str) -> str:
    """Return the language of a locale: `pt` of `pt_BR.UTF-8`."""
    return locale.partition(".")[0].partition("_")[0].partition("@")[0].strip().lower()
