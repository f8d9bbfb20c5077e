"""Templates, rendered in the reader's language.

Everything a template prints is escaped. Titles and snippets, which may contain marks, are `Snippet.html()`, which
escapes first and marks afterwards. Text that a site wrote goes through the macros of `foreign.html`, which isolate its
direction and declare its language.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode
from zoneinfo import ZoneInfo

from fastapi import Request
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from teia.clock import Clock
from teia.collections.figures import FIGURES
from teia.config import extensions
from teia.config.extensions import extension_names
from teia.config.sections import ORDERS
from teia.lib.language_names import language_name
from teia.lib.message import Message, begins_with_name, decoded, encoded
from teia.records import Outcome
from teia.version import __version__
from teia.views.alerts import failed_seed
from teia.views.reports.catalogue import unit_of
from teia.views.reports.outcomes import outcome_words
from teia.web.access.roles import Role, TokenScope
from teia.web.background.lab import findings
from teia.web.charts.charts import Bar, BarPart, Charts, Line, points_from, stacks_from
from teia.web.language.numbers import LOCALES, Locale
from teia.web.language.translate import Translator, translator_for
from teia.web.server.auth import Visitor
from teia.web.server.preferences import language_of, preferences_of, zones
from teia.web.server.tour import read_tour

NOTICE_COOKIE, NOTICE_S, NOTICE_CHARS = "teia_notice", 30, 2_000
HERE = Path(__file__).resolve().parents[1]
# `&amp;` as a whole: the text is escaped before the breaks are inserted.
_BREAK_AFTER = re.compile(r"([/.?=]|&amp;)")
_COMMAND = re.compile(r"`([^`<>]+)`")
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")


class Renderer:
    """Renderer of records with templates; one environment per language.

    `headline` returns the header of an operator's pages.
    """

    def __init__(self, clock: Clock, headline: Callable[[Request], Any] = lambda _: None) -> None:
        self._clock, self._headline = clock, headline
        self._environments = {tag: self._environment(locale) for tag, locale in LOCALES.items()}

    def _environment(self, locale: Locale) -> Environment:
        environment = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            extensions=["jinja2.ext.i18n"],
            autoescape=True,
            # A misspelt name is an error in a test, not an empty place on a page.
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        translator = translator_for(locale.tag)
        environment.install_gettext_translations(translator.catalogue, newstyle=True)  # type: ignore[attr-defined]
        environment.filters |= {
            "number": locale.number,
            "percent": locale.percent,
            "size": locale.size,
            "span": locale.span,
            "moment": pass_context(partial(_moment, locale)),
            "since": pass_context(partial(_since, locale, self._clock)),
            "breakable": breakable,
            "language_name": partial(language_name, is_portuguese=locale.tag.startswith("pt")),
            "failed_seed": failed_seed,
            "outcome": lambda outcome: translator.translate(outcome_words(outcome or "")),
            "shown_url": shown_url,
            "translate": translator.translate,
            "translate_sentence": pass_context(partial(_sentence, locale, translator)),
        }
        environment.tests["named"] = begins_with_name
        environment.tests["past"] = lambda moment: (_unix_s(moment) or 0.0) <= self._clock.now_s()
        environment.globals |= {"locale": locale, "locales": tuple(LOCALES.values()), "Role": Role, "link": link}
        environment.globals |= {
            "charts": Charts(locale, translator.catalogue.gettext),
            "Line": Line,
            "Part": BarPart,
            "Bar": Bar,
            "points_from": points_from,
            "stacks_from": stacks_from,
        }
        words = {outcome.value: translator.translate(outcome_words(outcome)) for outcome in Outcome}
        environment.globals |= {"outcome_words": words}
        orders = (*ORDERS, *extension_names(extensions.ORDERS))
        environment.globals |= {"unit_of": unit_of, "zones": zones, "orders": orders, "findings": findings}
        environment.globals["figure"] = lambda name: translator.translate(FIGURES[name].label)
        return environment

    def response(self, request: Request, visitor: Visitor, template: str, view: Any, status: int = 200) -> HTMLResponse:
        """Render a page."""
        locale = language_of(request, visitor)
        query = request.url.query
        context = {
            "view": view,
            "visitor": visitor,
            "headline": self._headline(request) if visitor.may(Role.OPERATOR, TokenScope.READ) else None,
            "path": request.url.path,
            # Forms return to this address; that of a long query is cut.
            "here": getattr(view, "short_address", "") or request.url.path + (f"?{query}" if query else ""),
            "collection": request.path_params.get("collection", ""),
            "version": __version__,
            "notice": _notice(request),
            "tour": read_tour(request.app.state.installation.root) if request.url.path == "/" else None,
            **preferences_of(request, visitor),
        }
        text = self._environments[locale.tag].get_template(template).render(context)
        headers = {"content-language": locale.tag, "vary": "accept-language, cookie"}
        response = HTMLResponse(text, status, headers)
        if context["notice"]:
            response.delete_cookie(NOTICE_COOKIE)
        return response


def with_notice(response: Response, message: str) -> Response:
    """Let the page that the browser is sent to show a sentence, once; only a message can be translated."""
    text = encoded(message)
    if isinstance(message, Message) and len(text) <= NOTICE_CHARS:
        value = urlsafe_b64encode(text.encode()).decode()
        response.set_cookie(NOTICE_COOKIE, value, max_age=NOTICE_S, samesite="lax", httponly=True)
    return response


def _notice(request: Request) -> Message | None:
    try:
        return decoded(urlsafe_b64decode(request.cookies.get(NOTICE_COOKIE, "")).decode()) or None
    except ValueError:  # not one of ours
        return None


def link(path: str, **query: object) -> str:
    """Return an address of ours with quoted path and query values; None and empty values are left out."""
    wanted: Mapping[str, str] = {name: str(value) for name, value in query.items() if value not in (None, "")}
    return quote(path, safe="/:@") + (f"?{urlencode(wanted)}" if wanted else "")


def breakable(text: str) -> Markup:
    """Let a URL wrap after its separators."""
    return Markup(_BREAK_AFTER.sub(r"\1<wbr>", str(escape(text))))  # noqa: S704  # escaped before


def shown_url(url: str) -> Markup:
    """Format a URL as results show it: host › folder › page, without its scheme."""
    rest = url.partition("://")[2].rstrip("/")
    parts = [part for part in rest.split("/") if part]
    return Markup(" › ").join(breakable(part) for part in parts)


def _unix_s(moment: str | float | None) -> float | None:
    # Records have ISO times, series have Unix times.
    if isinstance(moment, str):
        return datetime.fromisoformat(moment).timestamp()
    return moment


def _sentence(locale: Locale, translator: Translator, context: Context, text: str | None) -> Markup:
    """Translate a sentence; instants in it are shown as all others are, and `commands` as such."""
    said = _COMMAND.sub(r"<code>\1</code>", str(escape(translator.translate_marked(text))))
    shown = _INSTANT.sub(lambda found: str(_moment(locale, context, found[0], seconds=True)), said)
    return Markup(shown)  # noqa: S704  # escaped before


def _moment(locale: Locale, context: Context, moment: str | float | None, *, seconds: bool = False) -> Markup:
    """Return a `<time>` in the reader's chosen zone; without one, the page's script shows it in the browser's."""
    at_s = _unix_s(moment)
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
    at_s = _unix_s(moment)
    if at_s is None:
        return Markup("")
    iso = datetime.fromtimestamp(at_s, UTC).isoformat(timespec="seconds")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        iso, _in_zone(locale, context, at_s), locale.since(clock.now_s() - at_s)
    )
