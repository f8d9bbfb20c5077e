"""A real site, written by others: documentation packages of Debian, served by nginx on loopback.

nginx runs as one process with keep-alive, in a folder of its own, on a port that the kernel chose, and ends with the
block. Its access log decides what was fetched: nginx writes a line before it reads the next request of a connection, so
the log is complete once a crawler has ended.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from teia.errors import MissingComponent

PYTHON = Path("/usr/share/doc/python3.11/html")
APACHE = Path("/usr/share/doc/apache2-doc/manual")
HANDBOOK = Path("/usr/share/doc/debian-handbook/html")
PACKAGES = {PYTHON: "python3.11-doc", APACHE: "apache2-doc", HANDBOOK: "debian-handbook"}
START_S = 10.0

_CONFIGURATION = """\
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
    types {{
        text/html html; text/plain txt; text/css css; application/javascript js; application/xml xml;
        image/png png; image/gif gif; image/svg+xml svg; image/x-icon ico; application/gzip gz;
    }}
    default_type application/octet-stream;
    client_body_temp_path {folder}/temporary; proxy_temp_path {folder}/temporary;
    fastcgi_temp_path {folder}/temporary; uwsgi_temp_path {folder}/temporary; scgi_temp_path {folder}/temporary;
    log_format hits escape=json '{{"time_s":$msec,"status":$status,"type":"$sent_http_content_type",'
                                '"uri":"$request_uri","agent":"$http_user_agent"}}';
    access_log {folder}/access.log hits;
    sendfile on; tcp_nopush on; keepalive_requests 1000000; absolute_redirect off;
    server {{ listen 127.0.0.1:{port} backlog=1024; root {folder}/www; index index.html; }}
}}
"""


@dataclass(frozen=True, slots=True)
class Hit:
    """One request as nginx answered it."""

    time_s: float
    status: int
    media_type: str
    path: str
    agent: str

    @property
    def is_page(self) -> bool:
        return self.status == 200 and self.media_type == "text/html"


@dataclass(frozen=True, slots=True)
class Site:
    """A site that is being served: its first page, and its log."""

    url: str
    log: Path

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    def mark(self) -> int:
        """Return the current end of the log; `hits` takes it to return only later requests."""
        return self.log.stat().st_size

    def hits(self, since: int = 0) -> list[Hit]:
        with self.log.open("rb") as log:
            log.seek(since)
            return [_hit(line) for line in log]


def _hit(line: bytes) -> Hit:
    entry = json.loads(line)
    media_type = entry["type"].partition(";")[0]
    return Hit(entry["time_s"], entry["status"], media_type, entry["uri"].partition("#")[0], entry["agent"])


def need(*trees: Path) -> None:
    """Raise an error if nginx or one of these packages is missing, with the command that installs it."""
    missing = [package for tree, package in PACKAGES.items() if _is_part_missing(tree, trees)]
    if _nginx() is None:
        missing.append("nginx-light")
    if missing:
        raise MissingComponent(f"the site needs {' '.join(missing)}: scripts/peers, or apt-get install them")


def _is_part_missing(package: Path, trees: tuple[Path, ...]) -> bool:
    return any(tree.is_relative_to(package) and not tree.is_dir() for tree in trees)


@contextmanager
def serving(folder: Path, trees: Mapping[str, Path]) -> Iterator[Site]:
    """Serve each tree under its name, with a first page that links to all of them."""
    need(*trees.values())
    (folder / "www").mkdir(parents=True)
    (folder / "temporary").mkdir()
    for name, tree in trees.items():
        (folder / "www" / name).symlink_to(tree)
    links = "".join(f'<li><a href="/{link}">{link}</a></li>' for name in trees for link in _entries(name, trees[name]))
    (folder / "www" / "index.html").write_text(f"<!DOCTYPE html><title>Documentation</title><ul>{links}</ul>", "utf-8")
    with serving_nginx(folder, _CONFIGURATION) as port:
        yield Site(f"http://127.0.0.1:{port}/", folder / "access.log")


@contextmanager
def serving_nginx(folder: Path, configuration: str) -> Iterator[int]:
    """Run nginx with a configuration, in which `{folder}` and `{port}` are filled in; yield the port."""
    port = _free_port()
    (folder / "nginx.conf").write_text(configuration.format(folder=folder, port=port), "utf-8")
    command = [str(_nginx()), "-p", str(folder), "-e", str(folder / "error.log"), "-c", str(folder / "nginx.conf")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(port, process, folder / "error.log")
        yield port
    finally:
        process.terminate()
        process.wait(START_S)


def _entries(name: str, tree: Path) -> list[str]:
    """Return the first pages of a tree: its index, or those of its parts if it has none (the handbook's languages)."""
    if (tree / "index.html").exists():
        return [f"{name}/index.html"]
    return [f"{name}/{index.relative_to(tree)}" for index in sorted(tree.glob("*/index.html"))]


def _nginx() -> str | None:
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as any_free:
        port: int = any_free.getsockname()[1]
        return port


def _wait_for(port: int, process: subprocess.Popen[bytes], errors: Path) -> None:
    give_up = time.monotonic() + START_S
    while time.monotonic() < give_up and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise MissingComponent(f"nginx did not start; {errors} says why")
