"""What the tests of fetching share: a fetcher with short limits, run on a loop of its own."""

from __future__ import annotations

import asyncio
import dataclasses
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import pytest
import uvloop

from teia import urls
from teia.clock import WallClock
from teia.config.sections import LimitSettings
from teia.fetch.curl import CurlFetcher
from teia.fetch.fetcher import FetchRequest
from teia.fetch.guard import AddressGuard
from teia.lab.hostile.server import WEB
from teia.records import Fetched

LIMITS = dataclasses.replace(LimitSettings(), connect_s=2.0, slow_s=2.0, fetch_s=4.0, body_bytes=100_000)
IMPATIENT = dataclasses.replace(LIMITS, connect_s=1.0, slow_s=1.0)


class Fetching:
    """A fetcher inside a running loop; `get` waits for one answer."""

    def __init__(self, **options: Any) -> None:
        guard = options.pop("guard", None) or AddressGuard(["127.77.0.0/16"])
        limits = options.pop("limits", LIMITS)
        self.limits = limits
        self.fetcher = CurlFetcher(guard, limits, WallClock(), "teia-test (+https://teia.invalid/)", **options)

    async def get(self, url: str, address: str = WEB[0], **fields: Any) -> Fetched:
        return (await self.get_all([url], address, **fields))[0]

    async def get_all(self, several: Sequence[str], address: str = WEB[0], **fields: Any) -> list[Fetched]:
        loop = asyncio.get_running_loop()
        answers: list[asyncio.Future[Fetched]] = []
        for url in several:
            answer: asyncio.Future[Fetched] = loop.create_future()
            port = fields.get("connect_port") or urls.split(url).port
            options = {"max_body_bytes": self.limits.body_bytes} | fields | {"connect_port": port}
            self.fetcher.start(FetchRequest(url, address, **options), answer.set_result)
            answers.append(answer)
        return list(await asyncio.gather(*answers))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.fetcher.close()


def get(*several: str, address: str = WEB[0], options: dict[str, Any] | None = None, **fields: Any) -> list[Fetched]:
    """Fetch URLs one after the other with one fetcher."""

    async def run() -> list[Fetched]:
        async with Fetching(**(options or {})) as fetching:
            return [await fetching.get(url, address, **fields) for url in several]

    return uvloop.run(run())


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy of the machine must not matter; where it matters, a test sets its own."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory, program: Callable[[str], str]) -> Path:
    """A folder with the key and the certificate of a.test."""
    folder = tmp_path_factory.mktemp("tls")
    names = ["-subj", "/CN=a.test", "-addext", "subjectAltName=DNS:a.test"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    command = [
        program("openssl"),
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
        *names,
        *files,
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return folder
