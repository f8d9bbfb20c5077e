"""pywb, the replay tool of web archives, shows a page of ours as it was served.

pywb is under the GPL and no part of teia: it is installed into an environment of its own (.cache/pywb), made on first
use, and spoken to over HTTP.
"""

from __future__ import annotations

import hashlib
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from teia.crawler.lookup import Lookup
from teia.lab.world.exchange import WorldAnswer
from teia.render.program import find_browser
from teia.store.root import open_root
from teia.transfer.export import cdxj_lines, export_warc_folder, new_file
from tests.conftest import ROOT, missing
from tests.crawler.rendering.script_webs import styled_site
from tests.crawler.webs import ScriptedWeb, crawl_web
from tests.system.labs import crawl, running_lab
from tests.waiting import until

PYWB = "pywb==2.10.0"
ENVIRONMENT = ROOT / ".cache" / "pywb"
SPEC = "hosts = 3\npages = 30\n[errors]\nscale = 0\n[sites]\ngzip = 0.5\nchunked = 0.5\n[robots]\ncrawl_delay = 0\n"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def wayback() -> str:
    """The path of pywb's server."""
    program = ENVIRONMENT / "bin" / "wayback"
    if not program.exists():
        shutil.rmtree(ENVIRONMENT, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True, timeout=120)
        # setuptools: pywb still imports pkg_resources, which newer environments do not have.
        words = [str(ENVIRONMENT / "bin" / "pip"), "install", "--quiet", PYWB, "setuptools<81"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            shutil.rmtree(ENVIRONMENT, ignore_errors=True)
            missing(f"{PYWB} cannot be installed: {(done.stderr.strip().splitlines() or ['pip failed'])[-1]}")
    return str(program)


@pytest.fixture(scope="module")
def replay(wayback: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A crawl, exported into pywb's folders and served by it: the data folder and where it answers."""
    folder = tmp_path_factory.mktemp("pywb")
    with running_lab(folder, SPEC, 97) as lab:
        crawl(lab, folder / "data", "--delay", "0.02")
    with serving_archive(wayback, folder) as base:
        yield folder / "data", base


@contextmanager
def serving_archive(wayback: str, folder: Path) -> Iterator[str]:
    """Export the collection of a folder for pywb, and serve it; yield its address."""
    root = open_root(folder / "data")
    collection = folder / "collections" / "teia"
    export_warc_folder(root, "main", collection / "archive")
    with cdxj_lines(root, "main") as lines, new_file(collection / "indexes" / "index.cdxj") as file:
        file.writelines(lines)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [wayback, "--bind", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _await_port(port, process)
            yield f"http://127.0.0.1:{port}/teia"
        finally:
            process.terminate()


def _await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    def listens() -> bool:
        assert process.poll() is None, "wayback ended"
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        return False

    until(listens, "wayback listens")


def test_every_page_replays_with_the_bytes_that_were_served(replay: tuple[Path, str]) -> None:
    data, base = replay
    shown = 0
    with Lookup(open_root(data), "main") as lookup:
        for url, _, page in lookup.pages():
            if page.status != 200:
                continue
            with urllib.request.urlopen(f"{base}/2id_/{url}", timeout=30) as answer:
                body = answer.read()
            assert hashlib.sha256(body).digest() == page.digest, url
            assert body == lookup.capture(url).payload
            shown += 1
    assert shown > 20


def test_a_page_that_was_never_stored_is_not_found(replay: tuple[Path, str]) -> None:
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{replay[1]}/2id_/http://nowhere.test/", timeout=30)


def test_a_rendered_page_replays_with_its_text(wayback: str, tmp_path: Path) -> None:
    """A browser runs the page's scripts again, and finds their requests in the archive."""
    if find_browser() is None:
        missing("chromium-headless-shell is not installed")
    site = styled_site({"single": 1})
    files = {
        path: WorldAnswer(200, f"Content-Type: {kind}\r\n".encode(), body) for path, (kind, body) in site.files.items()
    }
    crawled = crawl_web(ScriptedWeb({"h.test": files}), tmp_path, "h.test/")
    url, word = f"http://h.test:{crawled.port}{site.pages[0].path}", site.pages[0].scripted_words[0]
    with serving_archive(wayback, tmp_path) as base, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser())
        page = browser.new_page()
        page.goto(f"{base}/2/{url}")
        expect(page.frame_locator("#replay_iframe, iframe").locator("#root")).to_contain_text(word, timeout=30_000)
        browser.close()
