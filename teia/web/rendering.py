"""Templates, in the reader's language.

Everything a template prints is escaped; what may hold marks (titles and snippets) is `Snippet.html()`, which escapes
first and marks then. Text that a site wrote goes through the macros of `foreign.html`, which isolate its direction and
say its language.
"""

from __future__ import annotations

import gettext
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode
from zoneinfo import ZoneInfo

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from teia import __version__
from teia.clock import Clock
from teia.crawl.reports.catalogue import unit_of
from teia.web.charts import Bar, Charts, Line, Part
from teia.web.choosing import choices_of, language_of, zones
from teia.web.gate import Visitor
from teia.web.phrases import Phrases
from teia.web.roles import Role
from teia.web.scopes import Scope
from teia.web.words import ENGLISH, LOCALES, Locale

HERE = Path(__file__).parent
_BREAK_AFTER = re.compile(r"([/.?=]|&amp;)")


class Renderer:
    """Renders records with templates; one environment per language.

    `headline` tells what stands in the head of every page of an operator.
    """

    def __init__(self, clock: Clock, headline: Callable[[Request], Any] = lambda _: None) -> None:
        self._clock, self._headline = clock, headline
        self._environments = {tag: self._environment(locale) for tag, locale in LOCALES.items()}

    def _environment(self, locale: Locale) -> Environment:
        environment = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            extensions=["jinja2.ext.i18n"],
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        translations = translations_for(locale)
        environment.install_gettext_translations(translations, newstyle=True)  # type: ignore[attr-defined]
        environment.filters |= {
            "number": locale.number,
            "percent": locale.percent,
            "size": locale.size,
            "span": locale.span,
            "moment": pass_context(partial(_moment, locale)),
            "since": pass_context(partial(_since, locale, self._clock)),
            "breakable": breakable,
            "shown_url": shown_url,
            "said": lambda text: translations.gettext(text) if text else "",
            "told": partial(_told, phrases_for(locale.tag)),
        }
        environment.tests["past"] = lambda moment: (_seconds(moment) or 0.0) <= self._clock.now_s()
        environment.globals |= {"locale": locale, "locales": tuple(LOCALES.values()), "Role": Role, "link": link}
        environment.globals |= {"charts": Charts(locale, translations.gettext), "Line": Line, "Part": Part, "Bar": Bar}
        environment.globals |= {"unit_of": unit_of, "zones": zones}
        return environment

    def response(self, request: Request, visitor: Visitor, template: str, view: Any, status: int = 200) -> HTMLResponse:
        """Answer with a page."""
        locale = language_of(request, visitor)
        query = request.url.query
        context = {
            "view": view,
            "visitor": visitor,
            "headline": self._headline(request) if visitor.may(Role.OPERATOR, Scope.READ) else None,
            "path": request.url.path,
            "here": getattr(view, "short_address", "") or request.url.path + (f"?{query}" if query else ""),
            "collection": request.path_params.get("collection", ""),
            "version": __version__,
            **choices_of(request, visitor),
        }
        text = self._environments[locale.tag].get_template(template).render(context)
        return HTMLResponse(text, status, {"content-language": locale.tag, "vary": "accept-language, cookie"})


def translations_for(locale: Locale) -> gettext.NullTranslations:
    """What English sentences are in a language; themselves in English."""
    name = locale.tag.replace("-", "_")
    return gettext.translation("teia", HERE / "locale", [name], fallback=True)


@lru_cache
def phrases_for(tag: str) -> Phrases | None:
    """Says English sentences in a language; None for English itself."""
    locale = LOCALES[tag]
    return None if locale is ENGLISH else Phrases(translations_for(locale).gettext, locale)


def link(path: str, **query: object) -> str:
    """An address of ours: path segments and query values quoted; values that are None or empty left out."""
    wanted: Mapping[str, str] = {name: str(value) for name, value in query.items() if value not in (None, "")}
    return quote(path, safe="/:@") + (f"?{urlencode(wanted)}" if wanted else "")


def breakable(text: str) -> Markup:
    """A URL that may be wrapped after its separators."""
    return Markup(_BREAK_AFTER.sub(r"\1<wbr>", str(escape(text))))  # noqa: S704  # escaped before


def shown_url(url: str) -> Markup:
    """A URL as results show it: host › folder › page, without its scheme."""
    rest = url.partition("://")[2].rstrip("/")
    parts = [part for part in rest.split("/") if part]
    return Markup(" › ").join(breakable(part) for part in parts)


def _told(phrases: Phrases | None, text: str | None, marked: bool = True) -> str:
    """A sentence that another module wrote; marked as English where nobody knows it in the reader's language."""
    if not text or phrases is None:
        return text or ""
    said = phrases.said(text)
    if said is not None:
        return said
    return Markup('<span lang="en">{}</span>').format(text) if marked else text


def _seconds(moment: str | float | None) -> float | None:
    if isinstance(moment, str):
        return datetime.fromisoformat(moment).timestamp()
    return moment


def _moment(locale: Locale, context: Context, moment: str | float | None, *, seconds: bool = False) -> Markup:
    """A `<time>` with the instant, in the zone that the reader chose; else the page's script shows it in theirs."""
    at_s = _seconds(moment)
    if at_s is None:
        return Markup("")
    iso = datetime.fromtimestamp(at_s, UTC).isoformat(timespec="seconds")
    mark = Markup(" data-seconds") if seconds else ""
    return Markup('<time datetime="{}"{}>{}</time>').format(iso, mark, _in_zone(locale, context, at_s, seconds))


def _in_zone(locale: Locale, context: Context, at_s: float, seconds: bool = False) -> str:
    zone: ZoneInfo | None = context.get("zone")
    shown = locale.moment(at_s, zone or UTC, seconds=seconds)
    return f"{shown} UTC" if zone is None else shown


def _since(locale: Locale, clock: Clock, context: Context, moment: str | float | None) -> Markup:
    at_s = _seconds(moment)
    if at_s is None:
        return Markup("")
    iso = datetime.fromtimestamp(at_s, UTC).isoformat(timespec="seconds")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        iso, _in_zone(locale, context, at_s), locale.since(clock.now_s() - at_s)
    )
