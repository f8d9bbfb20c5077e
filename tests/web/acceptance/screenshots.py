"""Pictures of the main pages (`scripts/screenshots`), from a fresh `teia demo` with a seed of its own."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import sync_playwright

from tests.web.test_browser import CHROMIUM, Live

from .demo import NAME, demo_left, serving_at

IMAGES = Path(__file__).resolve().parents[3] / "docs" / "images"
MOST_BYTES = 150_000
SIZES = {1280: 560, 360: 720}
KEPT = {"results-light-1280", "page-light-1280", "monitor-dark-1280", "freshness-light-1280", "collection-light-1280",
        "results-dark-360"}  # fmt: skip
"""Those that documents show; the others are made with --all."""


def addresses(live: Live) -> dict[str, str]:
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


def main(words: list[str]) -> int:
    """Make them; returns 1 if one is larger than it may be."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    large = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        left = demo_left(Path(folder))
        with serving_at(left.data, left.ended_s) as served:
            live = Live(served.web, served.base)
            browser = playwright.chromium.launch(executable_path=CHROMIUM)
            for theme in ("light", "dark"):
                for width, height in SIZES.items():
                    size = {"width": width, "height": height}
                    context = live.context(browser, color_scheme=theme, viewport=size, timezone_id="America/Sao_Paulo")
                    page = context.new_page()
                    for name, address in addresses(live).items():
                        path = IMAGES / f"{name}-{theme}-{width}.png"
                        if "--all" not in words and path.stem not in KEPT:
                            continue
                        page.goto(address)
                        page.wait_for_timeout(500)  # charts are drawn
                        page.screenshot(path=path)
                        large += [path.name] if path.stat().st_size > MOST_BYTES else []
                    context.close()
            browser.close()
    for name in large:
        print(f"{name} is larger than {MOST_BYTES:,} bytes", file=sys.stderr)
    return bool(large)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
