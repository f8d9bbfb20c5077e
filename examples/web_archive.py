"""A legal deposit that uses teia for faithful captures: `python examples/web_archive.py`.

It stores pages with all files that they need to be shown, checks the archive, and hands over one WARC file that other
archives can read. Needs the extra `lab`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import teia
from teia.lab.server.process import lab_process


def deposit(lab: dict[str, Any], data: Path | str) -> teia.Summary:
    """Capture a web with the images and styles of its pages, and check what was stored."""
    summary = teia.crawl(
        lab["seeds"][0],
        data=data,
        scope=["suffix:.test"],
        requisites=True,
        max_pages=60,
        delay=0.02,  # for servers of your own; the default is 5 s
        dns=lab["dns"],
        allow_net=["127.77.0.0/16"],
        courtesy={"retry_wait_s": 0.2},
        limits={"slow_s": 2.0},
    )
    with teia.Collection(data) as collection:
        audit = collection.audit_archive()
        if audit.violations:
            raise RuntimeError(f"{audit.violations} of {audit.checked} records are damaged")
    return summary


def hand_over(data: Path | str, file: Path) -> int:
    """Write all captures into one WARC file; return its size."""
    command = [sys.executable, "-m", "teia", "export", "warc", "--data", str(data), "--out", str(file)]
    subprocess.run(command, check=True, capture_output=True)
    return file.stat().st_size


def main() -> None:
    """Serve a small web, deposit it and show one page as it was received."""
    web = lab_process("--pages", "60", "--hosts", "3", "--port", "0", "--dns-address", "127.77.255.53:0")
    with web as lab, tempfile.TemporaryDirectory() as folder:
        data, file = Path(folder) / "data", Path(folder) / "deposit.warc.gz"
        summary = deposit(lab, data)
        print(f"{summary.pages} pages, {hand_over(data, file):,} bytes of WARC")
        with teia.Collection(data) as collection:
            home = collection.page(lab["seeds"][0])
            print(home.url, "versions:", *(version.time for version in home.versions))
            print(collection.capture(home.url).head.decode("latin-1").splitlines()[0])


if __name__ == "__main__":
    main()
