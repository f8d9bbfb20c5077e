r"""Regular expressions that are matched in linear time, for any pattern that users write.

Python's engine tries every way to match, which for `(a+)+$` are more than there are atoms, and cannot be interrupted:
one expression that a user typed would hold up a web server or a crawl for ever. RE2 follows all ways at once, so that a
match takes time in proportion to the text and to the size of the expression, which has a limit here. Constructs that
cannot be matched so (looking ahead or behind, references back, atomic groups) are refused with a message that says what
to write instead.

The syntax is Python's as far as RE2 has it: `{,3}`, `\Z`, `\uXXXX` and comments are written anew for it. Expressions
are for texts of ASCII, as canonical URLs are: `\d`, `\w`, `\s` and `\b` know no other signs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress

import re2

from teia.lib.message import Message

MAX_SIZE = 10_000
"""Steps of a compiled expression: some thousand words as alternatives. On the hardest texts each takes some 12 ns a
character."""
MAX_MEMORY_BYTES = 2 << 20
"""Of a compiled expression and the states that it remembers."""

# Signs that mean themselves, or are escaped; `.`, `+`, `*`, `?`, `|` and brackets are not among them.
_LITERAL = re.compile(r"(\^?)((?:[A-Za-z0-9_/:~%&=#!@,;'\"<> -]|\\[^A-Za-z0-9\s])*)(\$?)")
_ESCAPE = re.compile(r"\\(.)")
_REWRITTEN = re.compile(
    r"(?P<escaped>\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}|\\.)|(?P<set>\[\^?\]?)|(?P<end>\])|(?P<comment>\(\?#[^)]*\))|(?P<most>\{,\d+\})",
    re.DOTALL,
)
_MEANT = (
    (
        r"\(\?<?[=!]",
        Message("uses look-ahead or look-behind; use two rules instead, such as and(regex:A, not(regex:B))"),
    ),
    (r"\\[1-9]|\(\?P=|\(\?P$|\(\?\(", Message("uses a back-reference; write out the alternatives")),
    (r"\(\?>|[*+?}]\+", Message("uses an atomic group or a possessive quantifier; use (?:…) and a plain quantifier")),
    (r"\(\?[a-zA-Z-]*[aLux]", Message("uses an unknown flag; i, m and s are supported")),
)
"""Constructs that RE2 cannot match, and the advice for each."""


def compile_test(expression: str) -> Callable[[str], bool]:
    """Return a test whether the expression is found in a text; ValueError names the error in the expression."""
    plain = _LITERAL.fullmatch(expression)
    if plain is not None:
        return _plain(_ESCAPE.sub(r"\1", plain[2]), is_start=bool(plain[1]), is_end=bool(plain[3]))
    # RE2's own match: `search` makes an object of a match, in Python, which takes longer than to find it.
    match, unanchored = _compile(to_re2(expression), expression)._regexp.Match, re2._Anchor.UNANCHORED

    def is_found(text: str) -> bool:
        # `surrogatepass`: half a surrogate pair in a text must not make a rule fail.
        octets = text.encode("utf-8", "surrogatepass")
        return bool(match(unanchored, octets, 0, len(octets))[0][0] >= 0)

    return is_found


def any_of(expressions: Sequence[str]) -> tuple[Callable[[str], bool], ...]:
    """Make tests of which one is true where one of the expressions is found: one pass for all, if they fit into it."""
    plain = [each for each in expressions if _LITERAL.fullmatch(each)]
    others = [each for each in expressions if not _LITERAL.fullmatch(each)]
    tests = [compile_test(each) for each in plain]
    singles = [compile_test(each) for each in others]  # each is judged by itself, so that the wrong one is named
    if len(others) > 1:
        with suppress(ValueError):  # together they may be too large
            singles = [compile_test("|".join(f"(?:{each})" for each in others))]
    return (*tests, *singles)


def size_of(expression: str) -> int:
    """Count the steps of an expression: the cost of a match per character of a hard text."""
    if _LITERAL.fullmatch(expression):
        return len(expression)
    return int(_compile(to_re2(expression), expression).programsize)


def to_re2(expression: str) -> str:
    """Return an expression of Python's as RE2 writes the same."""
    is_set = False

    def piece(match: re.Match[str]) -> str:
        nonlocal is_set
        text = match[0]
        if match["escaped"]:
            if text[1] in "uU" and len(text) > 2:
                return f"\\x{{{text[2:]}}}"
            return "\\z" if text == "\\Z" and not is_set else text
        # A `]` right after `[` or `[^` is a member of the set; the pattern takes it together with them.
        if match["set"] and not is_set:
            is_set = True
            return text
        if match["end"] or text.endswith("]"):
            is_set = False
        if is_set or match["end"] or match["set"]:
            return text
        return "" if match["comment"] else f"{{0,{text[2:-1]}}}"

    return _REWRITTEN.sub(piece, expression)


def _compile(expression: str, typed: str) -> re2._Regexp:
    options = re2.Options()
    options.log_errors, options.never_capture, options.max_mem = False, True, MAX_MEMORY_BYTES
    try:
        made = re2.compile(expression.encode(), options=options)
    except re2.error as error:
        raise ValueError(_explain(error, typed)) from None
    except UnicodeEncodeError:
        raise ValueError("is not valid UTF-8") from None
    # `max_mem` bounds the memory; the size of the program bounds the time of a match.
    if made.programsize > MAX_SIZE:
        raise ValueError(_TOO_LARGE)
    return made


_TOO_LARGE = Message("is too large; use fewer or smaller repetitions, or several rules")


def _explain(error: re2.error, typed: str) -> str:
    message = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
    meant = next((meaning for form, meaning in _MEANT if re.search(form, message)), "")
    if meant:
        return Message("{why} ({where})", why=meant, where=message.rpartition(": ")[2])
    if "invalid repetition size" in message:
        return Message(
            "repeats more than 1,000 times, possibly by nested repetitions ({where})", where=message.rpartition(": ")[2]
        )
    return _TOO_LARGE if "too large" in message else f"{message}, in {typed[:200]!r}"


def _plain(words: str, *, is_start: bool, is_end: bool) -> Callable[[str], bool]:
    """Test for a text without signs of expressions, which most rules are: faster than any engine."""
    if is_start and is_end:
        return lambda text: text == words
    if is_start:
        return lambda text: text.startswith(words)
    if is_end:
        return lambda text: text.endswith(words)
    return lambda text: words in text
