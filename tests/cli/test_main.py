from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from rich.text import Text

from teia import __version__
from teia.cli.main import COMMANDS, application
from teia.version import describe_build

from .conftest import Teia


def test_help_groups_the_commands(teia: Teia) -> None:
    done = teia("--help")
    assert done.returncode == 0
    for words in ("Laboratory", "Settings", *COMMANDS, "--install-completion", "--version"):
        assert words in done.stdout


def test_every_command_has_help_of_its_own(teia: Teia) -> None:
    for words in (("config",), ("lab",), ("lab", "serve"), ("lab", "reproduce")):
        done = teia(*words, "--help")
        assert done.returncode == 0, done.stderr
        assert f"Usage: teia {' '.join(words)}" in done.stdout


def test_no_help_text_loses_words_as_markup() -> None:
    """Rich reads `[word]` as a style, and prints nothing of it."""

    def texts(command: Any, name: str) -> Iterator[tuple[str, str]]:
        yield name, command.help or ""
        yield from ((f"{name} {each.name}", getattr(each, "help", None) or "") for each in command.params)
        for sub in getattr(command, "commands", {}).values():
            yield from texts(sub, f"{name} {sub.name}")

    found = list(texts(typer.main.get_command(application()), "teia"))
    assert len(found) > len(COMMANDS)
    assert [name for name, text in found if Text.from_markup(text).plain != text] == []


def test_version_is_one_line_with_the_build(teia: Teia, tmp_path: Path) -> None:
    done = teia("--version")
    assert (done.returncode, done.stdout) == (0, f"teia {__version__} ({describe_build()})\n")
    assert describe_build(str(tmp_path / "none")).startswith("from a checkout; CPython 3.")
    built = tmp_path / "build.json"
    built.write_text('{"commit": "0123456789ab", "date": "2026-11-17T22:04:37Z"}\n', "utf-8")
    assert describe_build(str(built)).startswith("commit 0123456789ab of 2026-11-17; CPython 3.")


def test_teia_alone_says_how_to_begin(teia: Teia) -> None:
    done = teia()
    assert done.returncode == 0
    assert "teia --help" in done.stdout


def test_what_teia_alone_proposes_exists(teia: Teia) -> None:
    proposed = [line.split("  ")[1].split() for line in teia().stdout.splitlines() if line.startswith("  teia ")]
    assert proposed
    for words in proposed:
        assert teia(*words[1:], "--help").returncode == 0


def test_shell_completion_offers_commands_and_ids(teia: Teia) -> None:
    words = {"_TEIA_COMPLETE": "complete_bash", "COMP_WORDS": "teia lab re", "COMP_CWORD": "2"}
    assert teia(environ=words).stdout.split() == ["reproduce"]
    words = {"_TEIA_COMPLETE": "complete_bash", "COMP_WORDS": "teia lab reproduce P", "COMP_CWORD": "3"}
    assert "P7" in teia(environ=words).stdout.split()
