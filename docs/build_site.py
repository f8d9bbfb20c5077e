"""The documentation as a site: `scripts/docs [--out FOLDER]` makes HTML of README, docs/ and the decisions.

Links between documents become links between pages. Links to source files become plain text, because the site has no
sources. A link to a document or heading that does not exist ends the build.
"""

from __future__ import annotations

import argparse
import html
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[1]
SECTIONS = {
    "Start": ("README", "docs/tutorial", "docs/install"),
    "How to": (
        "docs/howto", "docs/operate", "docs/keep-fresh", "docs/schedules", "docs/cluster", "docs/whatif",
        "docs/embedding", "docs/extending",
    ),
    "Reference": (
        "docs/commands", "docs/config", "docs/query-language", "docs/web", "docs/interface", "docs/formats",
        "docs/orders", "docs/rendering", "docs/signals", "docs/sites", "docs/traps", "docs/lab", "docs/glossary",
    ),
    "Explanation": (
        "docs/architecture", "docs/search", "docs/refresh", "docs/rates", "docs/graph", "docs/scale", "docs/measured",
        "docs/security", "docs/seeds",
    ),
    "Project": ("CHANGELOG", "CONTRIBUTING", "SECURITY", "docs/decisions/0001-record-decisions"),
}  # fmt: skip
"""Pages of the menu; every document of docs/ is one, and the decisions are reached from the first of them."""

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title} · teia</title><link rel="stylesheet" href="{top}style.css"></head>
<body><nav aria-label="Documents">{menu}</nav><main>{body}</main></body></html>
"""
STYLE = """\
body { margin: 0; display: flex; font: 16px/1.5 system-ui, sans-serif; color: #1d1d1f; background: #fff; }
nav { flex: 0 0 14rem; padding: 1rem; background: #f4f5f7; } nav ul { list-style: none; padding: 0; margin: 0 0 1rem; }
main { padding: 1rem 2rem 4rem; max-width: 60rem; min-width: 0; overflow-wrap: anywhere; }
pre { background: #f4f5f7; padding: .75rem; overflow-x: auto; } code { font-size: .9em; } img { max-width: 100%; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
td, th { border: 1px solid #d5d8dd; padding: .3rem .5rem; }
a { color: #0b57a4; } [aria-current] { font-weight: bold; }
@media (max-width: 50rem) { body { display: block; } }
@media (prefers-color-scheme: dark) { body { color: #e6e6e6; background: #16181b; } nav, pre { background: #22262b; }
  a { color: #8ec1ff; } td, th { border-color: #444a52; } }
"""


def documents() -> list[Path]:
    """Return all documents of the site, by their path in the repository; one that no menu names is an error."""
    listed = [ROOT / f"{name}.md" for names in SECTIONS.values() for name in names]
    decisions = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    forgotten = sorted({*(ROOT / "docs").glob("*.md")} - {*listed})
    if forgotten:
        raise SystemExit(f"name these in SECTIONS of docs/build_site.py: {', '.join(path.name for path in forgotten)}")
    return list(dict.fromkeys([*listed, *decisions]))


def place(document: Path) -> Path:
    """Return the path of a document's page in the site."""
    relative = document.relative_to(ROOT)
    inside = relative.relative_to("docs") if relative.parts[0] == "docs" else relative
    return Path("index.html") if inside.stem == "README" else inside.with_suffix(".html")


def anchor(text: str) -> str:
    """Return the anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-")


class Site:
    """All documents, parsed; `problems` are the links that lead nowhere."""

    def __init__(self, chosen: Sequence[Path]) -> None:
        parser = MarkdownIt("commonmark", {"html": False}).enable("table")
        self.known = documents()
        self.chosen = chosen
        self.renderer = parser
        self.tokens = {path: parser.parse(path.read_text("utf-8")) for path in chosen}
        self.anchors: dict[Path, set[str]] = {}
        self.problems: list[str] = []

    def headings(self, document: Path) -> set[str]:
        if document not in self.anchors:
            titles = re.findall(r"(?m)^#{1,6} (.+)$", document.read_text("utf-8"))
            self.anchors[document] = {anchor(title) for title in titles}
        return self.anchors[document]

    def page(self, document: Path) -> str:
        tokens = self.tokens[document]
        for number, token in enumerate(tokens):
            if token.type == "heading_open":
                token.attrSet("id", anchor(tokens[number + 1].content))
            if token.children:
                token.children = self._linked(document, token.children)
        title = next((t.content for t in tokens if t.type == "inline"), document.stem)
        body = self.renderer.renderer.render(tokens, self.renderer.options, {})
        top = "../" * (len(place(document).parts) - 1)
        return PAGE.format(
            title=html.escape(re.sub(r"[`*]", "", title)), top=top, menu=self._menu(document, top), body=body
        )

    def _menu(self, here: Path, top: str) -> str:
        parts = []
        for section, names in SECTIONS.items():
            parts.append(f"<h2>{section}</h2><ul>")
            for path in (ROOT / f"{name}.md" for name in names):
                current = ' aria-current="page"' if path == here else ""
                label = "teia" if path.stem == "README" else path.stem.removeprefix("0001-").replace("-", " ").lower()
                parts.append(f'<li><a href="{top}{place(path).as_posix()}"{current}>{label}</a></li>')
            parts.append("</ul>")
        return "".join(parts)

    def _linked(self, document: Path, children: list[Token]) -> list[Token]:
        """Return the tokens of a line with links to pages; links to other files are left out, their text stays."""
        kept, is_open = [], True
        for token in children:
            if token.type == "link_open":
                target = self._target(document, str(token.attrGet("href")))
                is_open = target is not None
                token.attrSet("href", target or "")
            elif token.type == "image":
                token.attrSet("src", self._target(document, str(token.attrGet("src"))) or "")
            if is_open or token.type not in {"link_open", "link_close"}:
                kept.append(token)
            is_open = is_open or token.type == "link_close"
        return kept

    def _target(self, document: Path, href: str) -> str | None:
        """Return the address of a link in the site; None for a file that has no page there."""
        if re.match(r"[a-z]+:", href):
            return href
        name, _, heading = href.partition("#")
        path = (document.parent / name).resolve() if name else document
        if not path.exists() or (heading and path.suffix == ".md" and heading not in self.headings(path)):
            self.problems.append(f"{document.relative_to(ROOT)}: {href}")
        if path in self.known:
            here = place(document).parent
            return Path(os.path.relpath(place(path), here)).as_posix() + (f"#{heading}" if heading else "")
        if path.is_relative_to(ROOT / "docs" / "images"):
            return Path(os.path.relpath(path.relative_to(ROOT / "docs"), place(document).parent)).as_posix()
        return None


def build(out: Path, chosen: Sequence[Path] | None = None) -> list[str]:
    """Write the site to a folder, and return the links that lead nowhere."""
    site = Site(documents() if chosen is None else chosen)
    for document in site.chosen:
        target = out / place(document)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(site.page(document), "utf-8")
    shutil.copytree(ROOT / "docs" / "images", out / "images", dirs_exist_ok=True)
    (out / "style.css").write_text(STYLE, "utf-8")
    return site.problems


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description="Build the documentation as a site.")
    arguments.add_argument("--out", type=Path, default=ROOT / "build" / "site")
    folder = arguments.parse_args().out
    broken = build(folder)
    if broken:
        sys.exit("broken links:\n" + "\n".join(broken))
    print(f"{len(documents())} pages in {folder}")
