"""A site of sixty pages in six styles, and a large site of documents, served by nginx and crawled by `teia crawl`.

`auto` finds what `always` finds, with fewer pages rendered. No request reaches the server but by the crawler's fetcher.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bench.peers.site import Site, serving, serving_nginx
from teia.clock import WallClock
from teia.crawler.fetch_rows import fetch_log
from teia.indexer.open_search import CollectionSearch
from teia.render.program import find_browser
from teia.store.root import open_root
from teia.transfer.audits import AuditKind, audit
from tests.conftest import ROOT, missing
from tests.crawler.rendering.script_webs import StyledSite, styled_site

pytestmark = [pytest.mark.slow, pytest.mark.timeout(580)]

SIXTY = {"static": 20, "single": 8, "scroll": 6, "click": 6, "line": 10, "broken": 10}
PYTHON_DOC = Path("/usr/share/doc/python3.11/html")

_CONFIGURATION = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
events {{ worker_connections 256; }}
http {{
    log_format hits escape=json '{{"time_s": $msec, "status": $status, "type": "$sent_http_content_type",'
        ' "uri": "$request_uri", "agent": "$http_user_agent"}}';
    access_log {folder}/access.log hits;
    client_body_temp_path {folder}/temporary;
    proxy_temp_path {folder}/temporary;
    fastcgi_temp_path {folder}/temporary;
    uwsgi_temp_path {folder}/temporary;
    scgi_temp_path {folder}/temporary;
    default_type text/html;
    types {{ text/html html; text/javascript js; }}
    server {{
        listen 127.0.0.1:{port};
        root {folder}/www;
        location /api/ {{ types {{ }} default_type application/json; }}
    }}
}}
"""


@pytest.fixture(scope="module", autouse=True)
def chromium() -> None:
    if find_browser() is None:
        missing("chromium-headless-shell is not installed")


@dataclass(frozen=True)
class CrawledSite:
    """A crawl in one mode: its data, the report on rendering, and the server's own log of paths."""

    data: Path
    report: dict[str, Any]
    served: Counter[str]


def crawl_site(site: Site, mode: str, data: Path, **environ: str) -> CrawledSite:
    """Crawl a site without delays, because it is ours."""
    before = site.mark()
    settings = data.with_suffix(".toml")
    settings.write_text(f'[render]\nmode = "{mode}"\n[courtesy]\ncontact = "operator@example.org"\n')
    teia(
        "crawl", site.url, "--data", str(data), "--config", str(settings), "--allow-net", "127.0.0.0/8", "--delay",
        "0", "--per-host", "4", **environ,
    )  # fmt: skip
    report = json.loads(teia("report", "rendering", "--data", str(data), "--json").splitlines()[-1])
    return CrawledSite(data, report, Counter(hit.path for hit in site.hits(before)))


def teia(*words: str, **environ: str) -> str:
    command = [sys.executable, "-m", "teia", *words]
    env = {**os.environ, **environ}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def requests_of(crawled: CrawledSite) -> Counter[str]:
    """The paths that the fetch log has."""
    with fetch_log(open_root(crawled.data), "main") as log:
        rows = log.query("SELECT url FROM fetches WHERE status IS NOT NULL").rows
    return Counter("/" + url.split("/", 3)[3] for (url,) in rows)


def words_found(crawled: CrawledSite, site: StyledSite) -> set[str]:
    """The words of pages that a search finds."""
    with CollectionSearch(open_root(crawled.data), ["main"], WallClock()) as search:
        words = {word for page in site.pages for word in (*page.static_words, *page.scripted_words)}
        return {word for word in words if search.search(word).hits}


@contextmanager
def serving_styles(site: StyledSite, folder: Path) -> Iterator[Site]:
    """Serve a site in six styles by nginx."""
    for path, (_, body) in site.files.items():
        file = folder / "www" / (path.lstrip("/") or "index.html")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)
    (folder / "temporary").mkdir()
    with serving_nginx(folder, _CONFIGURATION) as port:
        yield Site(f"http://127.0.0.1:{port}/", folder / "access.log")


def test_auto_finds_all_that_always_finds_and_renders_fewer_than_half_of_the_pages(tmp_path: Path) -> None:
    styled = styled_site(SIXTY)
    assert len(styled.pages) == 60
    with serving_styles(styled, tmp_path) as site:
        by_mode = {mode: crawl_site(site, mode, tmp_path / mode) for mode in ("always", "auto", "never")}
    found = {mode: words_found(crawled, styled) for mode, crawled in by_mode.items()}
    print({mode: (crawled.report["attempts"], len(found[mode])) for mode, crawled in by_mode.items()})
    wanted = {word for page in styled.pages for word in (*page.static_words, *page.scripted_words)}
    assert found["always"] == found["auto"] == wanted
    assert len(found["never"]) < len(wanted) / 2
    assert by_mode["always"].report["attempts"] == 61  # with the start page
    assert by_mode["auto"].report["attempts"] <= 0.45 * 61
    assert by_mode["never"].report["attempts"] == 0
    for crawled in by_mode.values():
        assert requests_of(crawled) == crawled.served
        assert audit(open_root(crawled.data), "main", AuditKind.POLITENESS, WallClock()).violations == 0


@pytest.mark.skipif(not PYTHON_DOC.is_dir(), reason="python3.11-doc is not installed")
def test_few_pages_of_a_site_of_documents_are_rendered(tmp_path: Path) -> None:
    with serving(tmp_path / "site", {"python": PYTHON_DOC}) as site:
        crawled = crawl_site(site, "auto", tmp_path / "data")
    print({name: crawled.report[name] for name in ("pages", "attempts", "rendered_pages", "requests")})
    assert crawled.report["pages"] > 500
    assert crawled.report["attempts"] <= 0.02 * crawled.report["pages"]
    assert requests_of(crawled) == crawled.served


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_the_browser_connects_to_nothing_and_sends_nothing_by_the_internet(tmp_path: Path) -> None:
    program, styled = find_browser(), styled_site({"single": 4, "scroll": 1, "click": 1})
    # The browser may run as another user.
    with tempfile.TemporaryDirectory(dir="/tmp") as shared, serving_styles(styled, tmp_path) as site:
        folder, trace = Path(shared), Path(shared) / "trace"
        folder.chmod(0o777)
        wrapper = folder / "chromium-headless-shell"
        calls = "socket,connect,bind,sendto,sendmsg,sendmmsg"
        wrapper.write_text(f'#!/bin/sh\nexec strace -f -qq -e trace={calls} -o {trace} {program} "$@"\n')
        wrapper.chmod(0o755)
        crawled = crawl_site(site, "auto", tmp_path / "data", PATH=f"{folder}:{os.environ['PATH']}")
        lines = trace.read_text().splitlines()
    assert crawled.report["rendered_pages"] == 6
    assert any("AF_UNIX" in line for line in lines)
    internet = [line for line in lines if "AF_INET" in line or "sin_addr" in line or "sin6_addr" in line]
    print(f"{len(lines)} calls, {len(internet)} of the internet")
    assert internet == []
    assert requests_of(crawled) == crawled.served
