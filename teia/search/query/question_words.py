"""Question words, which carry no content: *what*, *how*, *quais*, *onde*.

A query ranks better without them, unless it has no other words; in phrases, and with `+`, they stay. The index's
own stop words are shorter lists, and each applies to one language only, while a query has none. So a word with a
meaning in the other language is not listed: *os*, *dos* and *era* are Portuguese for *the*, *of the* and *was*. The
words are written without accents and in lower case, as they are compared.
"""

from __future__ import annotations

from teia.search.query.words import folded

ENGLISH = """
    a about am an and any are as at be been being but by can could did do does doing for from had has have having he
    her hers him his how i if in into is it its me must my of on onto or our ours shall she should some such than that
    the their theirs them then there these they this those to too was we were what whats when where whether which while
    who whom whose why will with would you your yours
"""

PORTUGUESE = """
    a ao aonde aos aquela aquelas aquele aqueles aquilo as cade com como cuja cujas cujo cujos da das de dela delas
    dele deles do e ela elas ele eles em eram essa essas esse esses esta estao estas este estes eu foi foram ha isso
    isto ja lhe lhes mas me meu meus minha minhas na nas no nos nossa nossas nosso nossos numa o onde ou para pela pelas
    pelo pelos pode podem poderia por porque posso pra qual quais qualquer quando quanta quantas quanto quantos que quem
    sao se seja ser sera seria seu seus sua suas tambem tem tenho ter teu teus tinha tua tuas um uma umas uns voce voces
"""

_QUESTION_WORDS = frozenset((ENGLISH + PORTUGUESE).split())


_SIDES = {"en": frozenset(ENGLISH.split()), "pt": frozenset(PORTUGUESE.split())}


def question_language(word: str) -> str:
    """Return the language of a question word, if it belongs to one only: `en` or `pt`; otherwise ""."""
    found = [language for language, words in _SIDES.items() if folded(word) in words]
    return found[0] if len(found) == 1 else ""


def is_question_word(word: str) -> bool:
    return folded(word) in _QUESTION_WORDS
