"""The documents agree with the code and with each other."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from typing import Any

import typer

from teia.cli.config import markdown
from teia.cli.main import application
from teia.config.sections import Config
from teia.config.tree import keys_of
from teia.version import __version__

from .tree import ROOT, documents

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
ELSEWHERE = ("http://", "https://", "mailto:")


def text_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def prose(text: str) -> str:
    """A document without its code blocks and quoted code, where brackets mean other things."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"(?ms)^```.*?^```", "", text))


def anchors(text: str) -> set[str]:
    """The anchors GitHub gives to headings: lower-case, signs dropped, blanks as hyphens."""
    headings = re.findall(r"(?m)^#{1,6} (.+)$", text)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def commands(command: Any, words: tuple[str, ...] = ("teia",)) -> Iterator[tuple[str, list[str]]]:
    """Every visible command that does something, with its visible flags."""
    below = getattr(command, "commands", None)
    if below is None:
        flags = [max(each.opts, key=len) for each in command.params if each.param_type_name == "option"]
        hidden = {max(each.opts, key=len) for each in command.params if getattr(each, "hidden", False)}
        yield " ".join(words), [flag for flag in flags if flag not in hidden and flag != "--help"]
        return
    for name, each in below.items():
        if not each.hidden:
            yield from commands(each, (*words, name))


def test_every_relative_link_is_alive() -> None:
    dead: list[str] = []
    for document in documents():
        for one, other in LINK.findall(prose(document.read_text(encoding="utf-8"))):
            target = one or other
            if target.startswith(ELSEWHERE):
                continue
            name, _, anchor = target.partition("#")
            path = (document.parent / name).resolve() if name else document
            if not path.exists() or (anchor and anchor not in anchors(path.read_text(encoding="utf-8"))):
                dead.append(f"{document.relative_to(ROOT)}: {target}")
    assert not dead, "\n".join(dead)


def test_every_command_and_flag_is_documented() -> None:
    sections = re.split(r"(?m)^## ", text_of("docs/commands.md"))[1:]
    by_command = {section.splitlines()[0].strip("` "): section for section in sections}
    described = dict(commands(typer.main.get_command(application())))
    assert set(described) == set(by_command)
    missing = [f"{name} {flag}" for name, flags in described.items() for flag in flags if flag not in by_command[name]]
    assert not missing, "\n".join(missing)


def command_lines(text: str) -> Iterator[list[str]]:
    """The words of every command in the code blocks of a document, with `> FILE`; the rest of a pipe is left out."""
    blocks = re.findall(r"(?m)(?:^    .*\n)+", text) + re.findall(r"(?ms)^```\w*\n(.*?)^```", text)
    for line in "".join(blocks).replace("\\\n", " ").splitlines():
        found = re.match(r" *(?:[A-Z_]+=\S+ )?(?:[\w./-]+/)?teia ((?:[a-z]|--)[^|>&#·]*(?:(?<= )> \S+)?)", line)
        if found is not None:
            try:
                yield shlex.split(re.split(r"  +", found[1])[0])
            except ValueError:  # an apostrophe of a comment behind the command
                continue


def test_every_command_of_the_documents_exists() -> None:
    root = typer.main.get_command(application())
    wrong, number = [], 0
    for document in documents():
        if document.name == "CHANGELOG.md" or "decisions" in document.parts:  # what was, and why
            continue
        for words in command_lines(document.read_text(encoding="utf-8")):
            command, rest = root, list(words)
            while getattr(command, "commands", None) and rest and rest[0] in command.commands:
                command = command.commands[rest.pop(0)]
            known = {flag for each in (*root.params, *command.params) for flag in (*each.opts, *each.secondary_opts)}
            unknown = [
                word for word in rest if word.startswith("--") and word.partition("=")[0] not in known | {"--help"}
            ]
            if unknown or (getattr(command, "commands", None) and rest and rest[0].isalpha()):
                wrong.append(f"{document.relative_to(ROOT)}: teia {' '.join(words)}")
            number += 1
    assert number > 80
    assert not wrong, "\n".join(wrong)


def test_readme_leads_to_the_commands() -> None:
    assert "docs/commands.md" in text_of("README.md")


def test_settings_page_is_current() -> None:
    assert text_of("docs/config.md") == markdown(), "run: scripts/teia config --markdown > docs/config.md"


def test_every_setting_has_a_description() -> None:
    silent = [key for key, each in keys_of(Config).items() if not each.metadata.get("description", "").strip()]
    assert not silent


def test_every_setting_with_a_unit_in_its_name_says_it() -> None:
    units = {"_kb_s": "kB/s", "_s": "s", "_bytes": "bytes", "_chars": "characters"}
    wrong = []
    for key, each in keys_of(Config).items():
        unit = next((unit for ending, unit in units.items() if key.endswith(ending)), None)  # the longer ending first
        if unit is not None and each.metadata["unit"] != unit:
            wrong.append(key)
    assert not wrong


NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def _figures() -> Iterator[tuple[str, str]]:
    """Every number of the README's table of figures, with what it is about."""
    table = text_of("README.md").partition("\n## Measured\n")[2].partition("\n## ")[0]
    for line in table.splitlines():
        if line.startswith("| ") and not line.startswith("| what "):
            what, figure, _ = (cell.strip() for cell in line.strip("| ").split(" | "))
            yield from ((number.rstrip(","), what) for number in NUMBER.findall(re.sub(r"\]\([^)]*\)", "", figure)))


def test_every_figure_of_the_readme_is_one_of_the_page_of_figures() -> None:
    """Seen: the README showed the best figures ever measured, and docs/measured.md what was measured last."""
    measured = {number.rstrip(",") for number in NUMBER.findall(text_of("docs/measured.md"))}
    figures = list(_figures())
    assert len(figures) > 20
    assert not [(number, what) for number, what in figures if number not in measured]


def test_saved_figures_are_those_in_the_documents() -> None:
    """The rows beside other crawlers and of politeness, as the bench last saved them."""
    told = text_of("docs/measured.md")
    for row in json.loads(text_of("bench/results/crawl.json"))["rows"]:
        pages_per_s, ms, mb = (row[key] + 1e-9 for key in ("pages_per_s", "cpu_ms_per_page", "peak_rss_mb"))
        numbers = f"{pages_per_s:,.0f} | {ms:.2f} | {mb:.0f}"
        assert f"| {numbers} | {row['disk_bytes_per_page']:,} |" in told
    for row in json.loads(text_of("bench/results/politeness.json")).values():
        early = f"{row['early_by_host']} of {row['requests']:,}"
        assert f"| {row['requests_per_s']:,.0f} | {100 * row['of_possible']:.1f}% | {early} |" in told
    slowest, fastest = json.loads(text_of("bench/results/lab_serve.json"))["spread"]
    assert f"{slowest:,} to {fastest:,} answers/s" in told


def test_every_dependency_has_its_sentence() -> None:
    project = tomllib.loads(text_of("pyproject.toml"))["project"]
    wanted = [
        *project["dependencies"],
        *(each for extra in project["optional-dependencies"].values() for each in extra),
    ]
    names = {re.split(r"[\[<>=~! ]", each)[0] for each in wanted} - {project["name"]}
    decision = text_of("docs/decisions/0002-dependencies.md")
    missing = sorted(name for name in names if f"**{name}**" not in decision)
    assert not missing, f"docs/decisions/0002-dependencies.md does not say why these are here: {missing}"


def test_no_two_decisions_share_a_number() -> None:
    numbers = [int(path.name[:4]) for path in (ROOT / "docs" / "decisions").glob("*.md")]
    assert len(numbers) == len(set(numbers))


def test_changelog_begins_with_what_is_unreleased() -> None:
    headings = re.findall(r"(?m)^## (.+)$", text_of("CHANGELOG.md"))
    assert headings[0].strip("[]") == "Unreleased"


def test_documents_name_the_version_of_the_code() -> None:
    versions = re.findall(r"teia-(\d+\.\d+\.\d+)-", text_of("README.md") + text_of("docs/install.md"))
    assert set(versions) == {__version__}
    assert re.search(rf"(?m)^## \[{re.escape(__version__)}\] - \d{{4}}-\d\d-\d\d$", text_of("CHANGELOG.md"))


def test_the_tests_that_the_page_on_security_names_are_there() -> None:
    """A finding whose test has gone could come back unseen."""
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text_of("docs/security.md"))
    assert len(named) > 40
    for path, name in named:
        assert not name or f"def {name}(" in text_of(path), f"{path}::{name}"
        assert (ROOT / path).exists(), path
