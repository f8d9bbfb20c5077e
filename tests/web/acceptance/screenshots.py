"""Pictures of pages (`scripts/screenshots`), from a fresh `teia demo` with a seed of its own."""

from __future__ import annotations

import sys
import tempfile
from itertools import product
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import sync_playwright

from teia.web.access.roles import Role
from tests.web.test_browser import CHROMIUM, Live

from .demo import NAME, counted, demo_left, serving_at

ROOT = Path(__file__).resolve().parents[3]
IMAGES, REVIEW = ROOT / "docs" / "images", ROOT / "build" / "screenshots"
MOST_BYTES = 150_000
SIZES = {1280: 560, 360: 720}
THEMES, LANGUAGES = ("light", "dark"), ("en", "pt-BR")
SHOWN = {"results-light-1280", "page-light-1280", "monitor-dark-1280", "freshness-light-1280", "collection-light-1280",
         "results-dark-360"}  # fmt: skip
"""Those that documents show."""


def addresses(live: Live) -> dict[str, str]:
    """The pages that documents show."""
    hits = live.web.client().get("/api/v1/search?q=casa").json()["hits"]
    url = max(hits, key=lambda hit: hit["backlinks"] or 0)["url"]
    return {
        "home": "/",
        "results": "/search?q=casa+livro",
        "page": f"/c/{NAME}/page?url={quote(url, safe='')}",
        "monitor": f"/c/{NAME}",
        "freshness": f"/c/{NAME}/freshness",
        "collection": f"/c/{NAME}/edit",
    }


def more_addresses(live: Live) -> dict[str, str]:
    """Other pages, those with errors and those with nothing to show among them."""
    base, page = f"/c/{NAME}", addresses(live)["page"]
    hosts = live.web.client().get("/api/v1/search?q=casa&n=1").json()["hits"]
    url = page.partition("url=")[2]
    found = {
        "nothing-found": "/search?q=qwertyzxcv", "why": "/search?q=casa&explain=true", "copy": f"{base}/copy?url={url}",
        "calendar": f"{base}/calendar?url={url}", "unknown": f"{base}/unknown?url=http://never.test/",
        "collections": "/c", "hosts": f"{base}/hosts", "host": f"{base}/hosts/{hosts[0]['host']}",
        "frontier": f"{base}/frontier", "no-queue": f"{base}/frontier?contains=nowhere", "add": f"{base}/frontier/add",
        "runs": f"{base}/runs", "sql": f"{base}/sql?q=SELECT+url,+host,+outcome+FROM+fetches+LIMIT+5",
        "sql-error": f"{base}/sql?q=SELECT+*+FROM+fetchs", "watches": f"{base}/watches", "data": f"{base}/data",
        "new": "/c/new", "cluster": "/cluster", "lab": "/lab", "simulate": "/lab/simulate", "users": "/settings/users",
        "tokens": "/settings/tokens", "changes": "/settings/audit", "you": "/settings/you",
        "all-data": "/settings/data", "login": "/login",
        "help": "/help/query", "figures": "/help/figures", "api": "/api", "not-found": "/c/none",
    }  # fmt: skip
    reports = ("outcomes", "errors", "space", "growth", "coverage", "freshness", "hosts", "links", "traps")
    return found | {f"report-{name}": f"{base}/reports/{name}" for name in reports}


def main(words: list[str]) -> int:
    """Make them; returns 1 if one that documents show is larger than it may be.

    With `--all`, the whole length of every page is drawn for review, at each width, in each theme and language.
    """
    folder, languages = (REVIEW, LANGUAGES) if "--all" in words else (IMAGES, LANGUAGES[:1])
    folder.mkdir(parents=True, exist_ok=True)
    large = []
    with tempfile.TemporaryDirectory() as made, sync_playwright() as playwright:
        left = demo_left(Path(made))
        with serving_at(left.data, left.ended_s) as served:
            live = Live(served.web, served.base)
            pages = addresses(live) | (more_addresses(live) if "--all" in words else {})
            client = live.web.client(Role.ADMIN)
            for address in pages.values():
                counted(client, address)
            browser = playwright.chromium.launch(executable_path=CHROMIUM)
            for theme, width, language in product(THEMES, SIZES, languages):
                how = {"color_scheme": theme, "locale": language, "timezone_id": "America/Sao_Paulo"}
                context = live.context(browser, viewport={"width": width, "height": SIZES[width]}, **how)
                page = context.new_page()
                for name, address in pages.items():
                    path = folder / f"{name}-{theme}-{width}{'' if language == 'en' else f'-{language}'}.png"
                    if "--all" not in words and path.stem not in SHOWN:
                        continue
                    page.goto(address)
                    page.wait_for_timeout(500)  # charts are drawn
                    page.screenshot(path=path, full_page="--all" in words)
                    large += [path.name] if folder == IMAGES and path.stat().st_size > MOST_BYTES else []
                context.close()
            browser.close()
    for name in large:
        print(f"{name} is larger than {MOST_BYTES:,} bytes", file=sys.stderr)
    return bool(large)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
