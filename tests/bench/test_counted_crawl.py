"""`bench.counted_crawl` is `teia crawl`, and counts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_a_counted_crawl_crawls_and_counts(tmp_path: Path) -> None:
    """Its module and methods were renamed, and nothing ran it."""
    counts, data = tmp_path / "counts", tmp_path / "data"
    command = [sys.executable, "-m", "bench.counted_crawl", counts, "crawl", "http://127.0.0.1:9/", "--data", data]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "blocked_address" in ended.stdout + ended.stderr
    assert float(counts.read_text("ascii")) > 0
