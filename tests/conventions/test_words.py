"""Words that only we would understand, which people found on pages, in the terminal and in documents, stay gone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from teia.cli.main import application
from tests.web.messages import current

from .tree import ROOT

PHRASES = (
    *("needs you", "where they went", "nothing was written down", "which hosts cost most", "lost points", "all alike"),
    *("to finish what is known", "no end in sight", "grows faster than fetched", "early requests", "just done"),
    *("things to mend", "cannot name a collection", "see what it does", "what this does", "skip beats keep"),
    *("pages a crawl", "seconds a crawl", "hops from a seed", "a server rests", "who consented", "an admin decides"),
    *(
        "rank by meaning",
        "read it back",
        "can it be done",
        "fits in a week",
        "how large answers were",
        "rest or a budget",
    ),
    *("who of its owners", "all that waits", "behind others", "host left alone", "next first"),
    *("many at once", "do not come back by themselves", "much like it", "is told of", "nothing is watched"),
    *("believes no counter", "all well", "is taken along", "made again from that", "has people", "make the account"),
    *("no program has a token", "are not right", "too early to say how", "why here", "spelt so"),
    *("and what otherwise", "foretell", "nobody can beat", "what came of it", "how to do it again", "goes on after"),
    *("a word is no url", "chance is drawn", "who may what", "for who adds", "none could exceed"),
)
OF_DOCUMENTS = (
    "hops from a seed",
    "who consented",
    "goes on after",
    "who may what",
    "for who adds",
    "none could exceed",
)
WORDS = ("deeds?", "errands?", "keepers?", "mend(?:s|ed)?", "whoever", "somebody")


def said(phrases: tuple[str, ...]) -> re.Pattern[str]:
    words = (rf"(?<![{{\w`=]){word}(?![}}\w=])" for word in WORDS)
    return re.compile("|".join([*map(re.escape, phrases), *words]), re.IGNORECASE)


def helps(command: Any) -> Iterator[str]:
    """Everything that the help of a command and of its own commands says."""
    yield command.help or ""
    yield from (getattr(each, "help", None) or "" for each in command.params)
    for each in getattr(command, "commands", {}).values():  # of typer's own click
        yield from helps(each)


def sentences() -> dict[str, list[str]]:
    catalog = [text for each in current("pt_BR") for text in (each.id if isinstance(each.id, tuple) else (each.id,))]
    documents = [path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))]
    prose = [line for text in documents for line in re.sub(r"`[^`\n]*`", "", text).splitlines()]
    return {"pages": catalog, "command line": [*helps(typer.main.get_command(application()))], "documents": prose}


def test_all_commands_are_read() -> None:
    assert len([*helps(typer.main.get_command(application()))]) > 300


@pytest.mark.parametrize("place", ["pages", "command line", "documents"])
def test_no_private_word_is_said(place: str) -> None:
    pattern = said(OF_DOCUMENTS if place == "documents" else PHRASES)
    found = {match[0]: text[:160] for text in sentences()[place] if (match := pattern.search(text)) is not None}
    assert found == {}
