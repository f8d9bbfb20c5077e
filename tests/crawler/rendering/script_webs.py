"""Pages in six styles: static, single page, infinite scroll, behind a click, one line only, broken script."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

ITEMS = 5
"""Number of items that one request of an endless list brings; each list has three such parts."""

COLOURS = (
    "amber", "azure", "coral", "cream", "ebony", "ivory", "khaki", "lemon", "maroon", "olive", "plum", "ruby", "sepia",
    "teal", "umber", "violet",
)  # fmt: skip


def filler(number: int) -> str:
    """Some words that every page has in its own order, so that no two pages are alike."""
    return " ".join(COLOURS[(number * 7 + at * 3) % len(COLOURS)] for at in range(40))


def word_of(style: str, number: int, part: int = 0) -> str:
    """Return a word that stands nowhere else: it can be searched for."""
    letters = "".join(chr(ord("a") + int(digit)) for digit in f"{number:03d}{part:02d}")
    return f"{style}{letters}"


@dataclass(frozen=True)
class StyledPage:
    """A page, and the words that its reader finds in a browser."""

    path: str
    markup: str
    static_words: tuple[str, ...]
    scripted_words: tuple[str, ...] = ()


def _static(number: int) -> StyledPage:
    own = word_of("static", number)
    script = "<script src='/js/menu.js'></script>" if number % 2 else ""
    return StyledPage(f"/static/p{number}.html", f"<p>{own} {filler(number)}</p>{script}", (own,))


def _single(number: int) -> StyledPage:
    own = word_of("single", number)
    return StyledPage(f"/app/p{number}", '<div id="root"></div><script src="/js/app.js"></script>', (), (own,))


def _scroll(number: int) -> StyledPage:
    words = tuple(word_of("scroll", number, part) for part in range(3 * ITEMS))
    own = word_of("list", number)
    markup = f"<p>{own} {filler(number)}</p><ul id=list></ul><div id=end>.</div><script src='/js/scroll.js'></script>"
    return StyledPage(f"/scroll/p{number}.html", markup, (own,), words)


def _click(number: int) -> StyledPage:
    own, hidden = word_of("click", number), word_of("hidden", number)
    markup = (
        f"<p>{own} {filler(number)}</p><button id=more>Show details</button><div id=details></div>"
        "<script src='/js/click.js'></script>"
    )
    return StyledPage(f"/click/p{number}.html", markup, (own,), (hidden,))


def _line(number: int) -> StyledPage:
    own = word_of("line", number)
    markup = f"<p>{own} {filler(number)}</p><script src='/js/line.js'></script>"
    return StyledPage(f"/line/p{number}.html", markup, (own,))


def _broken(number: int) -> StyledPage:
    own = word_of("broken", number)
    markup = f"<p>{own} {filler(number)}</p><script src='/js/broken.js'></script>"
    return StyledPage(f"/broken/p{number}.html", markup, (own,))


STYLES: Mapping[str, Callable[[int], StyledPage]] = {
    "static": _static, "single": _single, "scroll": _scroll, "click": _click, "line": _line, "broken": _broken,
}  # fmt: skip

SCRIPTS = {
    "/js/menu.js": "document.title = document.title + '';",
    "/js/app.js": """
        fetch('/api' + location.pathname).then(answer => answer.json()).then(page => {
          const root = document.getElementById('root');
          root.innerHTML = '<h1></h1><p></p>';
          root.firstChild.textContent = page.title;
          root.lastChild.textContent = page.text;
          for (const to of page.links) {
            const link = document.createElement('a');
            link.href = to; link.textContent = to;
            root.append(link);
          }
        });
    """,
    "/js/scroll.js": """
        let part = 0;
        const list = document.getElementById('list');
        async function more() {
          if (part >= 3) return;
          const answer = await fetch('/api' + location.pathname + '/' + part++);
          for (const each of await answer.json()) {
            const item = document.createElement('li');
            item.style.height = '700px'; item.textContent = each;
            list.append(item);
          }
        }
        const watch = new IntersectionObserver(seen => { if (seen[0].isIntersecting) more(); });
        watch.observe(document.getElementById('end'));
    """,
    "/js/click.js": """
        document.getElementById('more').addEventListener('click', async () => {
          const answer = await fetch('/api' + location.pathname);
          document.getElementById('details').textContent = await answer.text();
        });
    """,
    "/js/line.js": """
        const line = document.createElement('p');
        line.textContent = 'This site uses scripts';
        document.body.append(line);
    """,
    "/js/broken.js": "no.such.thing(); document.body.append('never');",
}


@dataclass(frozen=True)
class StyledSite:
    """The files of a site by path, with their media types, and its pages."""

    pages: tuple[StyledPage, ...]
    files: Mapping[str, tuple[str, bytes]]


def styled_site(numbers: Mapping[str, int]) -> StyledSite:
    """Return a site with so many pages of each style; the start page leads to the first of each.

    Each page links to the next one of its style. A page of the single-page style does so only in a browser.
    """
    files = {path: ("text/javascript", code.encode()) for path, code in SCRIPTS.items()}
    pages: list[StyledPage] = []
    for style, number in numbers.items():
        made = [STYLES[style](each) for each in range(number)]
        pages += made
        for at, page in enumerate(made):
            next_page = made[at + 1].path if at + 1 < len(made) else ""
            link = f'<a href="{next_page}">next</a>' if next_page and style != "single" else ""
            title = f"<title>{style} {at}</title>"
            files[page.path] = ("text/html", f"<!doctype html>{title}{page.markup}{link}".encode())
            if style == "single":
                text = f"{page.scripted_words[0]} {filler(at)}"
                data = {"title": f"Page {at}", "text": text, "links": [next_page] if next_page else []}
                files[f"/api{page.path}"] = ("application/json", json.dumps(data).encode())
            elif style == "scroll":
                for part in range(3):
                    items = page.scripted_words[part * ITEMS : (part + 1) * ITEMS]
                    files[f"/api{page.path}/{part}"] = ("application/json", json.dumps(items).encode())
            elif style == "click":
                files[f"/api{page.path}"] = ("text/plain", page.scripted_words[0].encode())
    links = "".join(f'<a href="{STYLES[style](0).path}">{style}</a> ' for style in numbers)
    files["/"] = ("text/html", f"<!doctype html><title>Start</title><p>{filler(0)}</p>{links}".encode())
    return StyledSite(tuple(pages), files)
