"""The translations of the web interface (`scripts/messages`): found in templates, kept as .po, compiled to .mo.

They are the sentences in templates and in teia/web, the codes of every `Message` of teia (teia/lib/message.py), and
the descriptions of all settings (teia/config/sections.py) and the summaries of the API's routes, which pages translate
by their English text. A sentence is translated when its entry has a text and is not marked fuzzy.
"""

from __future__ import annotations

import io
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract, extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po
from fastapi.routing import APIRoute

from teia.clock import WallClock
from teia.config.sections import Config
from teia.config.tree import keys_of
from teia.web.app import MODULES
from teia.web.server.json_routes import PageRoutes
from teia.web.server.templates import Renderer

TEIA = Path(__file__).resolve().parents[2] / "teia"
WEB = TEIA / "web"
LOCALES = ("pt_BR",)
METHODS = [("templates/**.html", "jinja2"), ("**.py", "python")]
OPTIONS = {"templates/**.html": {"trimmed": "true", "encoding": "utf-8", "silent": "false"}}


def template() -> Catalog:
    """Every sentence there is, with where it stands."""
    found = Catalog(project="teia", charset="utf-8")
    for file, line, message, comments, context in extract_from_dir(WEB, METHODS, OPTIONS):
        found.add(message, None, [(file, line)], auto_comments=comments, context=context)
    for path in sorted(TEIA.rglob("*.py")):
        with path.open("rb") as file:
            for line, message, _, _ in extract("python", file, {"Message": None, "message_code": None}):
                found.add(message, None, [(os.path.relpath(path, WEB), line)])
    for each in keys_of(Config).values():
        found.add(each.metadata["description"], None, [("../config/sections.py", 0)])
    pages = PageRoutes(Renderer(WallClock()))
    for module in MODULES:
        module.add_routes(pages)
    for route in pages.router.routes:
        if isinstance(route, APIRoute) and route.include_in_schema and route.summary:
            found.add(route.summary, None, [("pages", 0)])
    return found


def catalog_file(locale: str) -> Path:
    return WEB / "locale" / locale / "LC_MESSAGES" / "teia.po"


def current(locale: str) -> Catalog:
    """A language's sentences, brought up to date with the templates."""
    path = catalog_file(locale)
    catalog = Catalog(locale=locale, project="teia", charset="utf-8")
    if path.exists():
        with path.open("rb") as file:
            catalog = read_po(file, locale=locale)
    catalog.update(template(), no_fuzzy_matching=True)
    catalog.obsolete.clear()
    return catalog


def untranslated(catalog: Catalog) -> list[str]:
    return [str(each.id) for each in catalog if each.id and (each.fuzzy or not all(_texts(each.string)))]


def _texts(string: object) -> tuple[object, ...]:
    return string if isinstance(string, tuple) else (string,)


def as_po(catalog: Catalog) -> bytes:
    out = io.BytesIO()
    write_po(out, catalog, width=0, sort_output=True, omit_header=False, include_lineno=False)
    dated = (b'"POT-Creation-Date', b'"PO-Revision-Date', b'"Generated-By')
    return b"".join(line for line in out.getvalue().splitlines(keepends=True) if not line.startswith(dated))


def as_mo(catalog: Catalog) -> bytes:
    """The same bytes whenever they are made: the header's dates say nothing."""
    catalog.creation_date = catalog.revision_date = datetime(2000, 1, 1, tzinfo=UTC)
    out = io.BytesIO()
    write_mo(out, catalog)
    return out.getvalue()


def main() -> int:
    for locale in LOCALES:
        path, catalog = catalog_file(locale), current(locale)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(as_po(catalog))
        with path.open("rb") as file:
            path.with_suffix(".mo").write_bytes(as_mo(read_po(file, locale=locale)))
        missing = untranslated(catalog)
        for each in missing:
            print(f"{locale}: not translated: {each}", file=sys.stderr)
    return bool(missing)


if __name__ == "__main__":
    sys.exit(main())
