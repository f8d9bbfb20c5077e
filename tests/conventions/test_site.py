"""The documentation as a site, and the tutorial as a newcomer follows it."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from .tree import ROOT


def builder() -> Any:
    """docs/build_site.py; it is a script, and in no package."""
    spec = spec_from_file_location("build_site", ROOT / "docs" / "build_site.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_site_has_all_documents_and_no_broken_link(tmp_path: Path) -> None:
    site = builder()
    assert site.build(tmp_path) == []
    pages = {path: path.read_text("utf-8") for path in tmp_path.rglob("*.html")}
    assert {page.relative_to(tmp_path) for page in pages} == {site.place(path) for path in site.documents()}
    assert len(pages) > 90
    broken = []
    for page, text in pages.items():
        for link in re.findall(r'(?:href|src)="([^"]*)"', text):
            name, _, anchor = link.partition("#")
            target = page if not name else (page.parent / name).resolve()
            if not urlsplit(link).scheme and not target.exists():
                broken.append(f"{page.name}: {link}")
            if anchor and target in pages and f'id="{anchor}"' not in pages[target]:
                broken.append(f"{page.name}: {link}")
    assert not broken, "\n".join(broken)


def test_a_document_that_no_menu_names_or_a_dead_link_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = builder()
    (tmp_path / "docs" / "decisions").mkdir(parents=True)
    (tmp_path / "docs" / "images").mkdir()
    (tmp_path / "docs" / "one.md").write_text("# One\n\n[a](two.md), [b](#none), [c](#one), [d](../code.py)\n", "utf-8")
    (tmp_path / "code.py").touch()
    monkeypatch.setattr(site, "ROOT", tmp_path)
    monkeypatch.setattr(site, "SECTIONS", {"Start": ()})
    with pytest.raises(SystemExit, match=r"one\.md"):
        site.documents()
    monkeypatch.setattr(site, "SECTIONS", {"Start": ("docs/one",)})
    assert site.build(tmp_path / "out") == ["docs/one.md: two.md", "docs/one.md: #none"]
    text = (tmp_path / "out" / "one.html").read_text("utf-8")
    assert ('<h1 id="one">' in text, 'href="#one"' in text or 'href="one.html#one"' in text, "code.py" in text) == (
        True, True, False
    )  # fmt: skip


def tutorial_script(port: int, web_port: int) -> str:
    """All commands of the tutorial, in their order, with free ports and teia of this checkout."""
    text = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
    blocks = re.findall(r"(?ms)^```sh\n(.*?)^```", text)
    assert len(blocks) >= 7
    script = "".join(blocks).replace(":8000", f":{port}").replace("site 8000", f"site {port}")
    script = script.replace("--port 8700", f"--port {web_port}")
    script = script.replace("sleep 5\n", "until grep -q '/login#' serve.log; do sleep 0.2; done\n")
    return f'set -euo pipefail; set -m; teia() {{ "{sys.executable}" -m teia "$@"; }}\n{script}'


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_command_of_the_tutorial_works(tmp_path: Path) -> None:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        script = tutorial_script(one.getsockname()[1], other.getsockname()[1])
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "0 pages" in done.stdout, "the query without results"
    assert "cold brew in summer" in done.stdout, "the line that was added"
    assert "/login#" in done.stdout
    assert (tmp_path / "copies.warc.gz").stat().st_size > 1_000
    assert done.stdout.count('"changed":true') + done.stdout.count('"changed": true') >= 1, "the second version"
