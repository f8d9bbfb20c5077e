"""Consistency of figures: the same name has the same value on pages, in the API, in `/metrics` and in `teia status`.

    python -m bench.figures --samples 200

`teia demo` crawls, indexes and revisits a synthetic web. All places that show a figure of the catalogue
(teia/collections/figures.py) are read one after the other. The crawler reports once a second, so a sample counts if the
report before and after it is the same one. Reported are the samples, and every contradiction among them.
"""

from __future__ import annotations

import argparse
import http.cookiejar
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from teia.cli.crawl.control import current_account
from teia.collections.figures import FIGURES
from teia.store.root import Root, open_root

Get = Callable[[str], str]
Values = Mapping[str, float]
NAME = "demo"
PASSWORD = "for the length of this run"  # of an account that ends with the demo
ROUNDED, ROUNDED_RATE = 0.00051, 0.051
"""Differences of shares in percent, and of rates, that are shown with one digit behind the point and are the same."""

_SHOWN = re.compile(r'data-live="([\w.]+)" data-as="(number|percent)[^>]*>([\d,.]+)%?<')
_LOGIN = re.compile(r"(http://127\.0\.0\.1:\d+)/login#(\S+)")


def read_sample(get: Get, root: Root, name: str) -> dict[str, Values] | None:
    """Read the figures of a collection wherever they are shown; None if the crawler reported anew meanwhile."""
    before = json.loads(get(f"/api/v1/c/{name}/status"))
    places = {
        "list of collections": _of_list(next(each for each in _collections(get) if each["name"] == name)),
        "/metrics": _of_metrics(get("/metrics"), name),
        "monitor": _of_page(get(f"/c/{name}")),
        "frontier": _of_account(json.loads(get(f"/api/v1/c/{name}/frontier"))),
        "teia status": _of_account(current_account(root, name)),
        "search": _named(json.loads(get("/api/v1/")), {"fresh": "freshness.fresh"}),
    }
    after = json.loads(get(f"/api/v1/c/{name}/status"))
    if _of_account(before) != _of_account(after):
        return None
    return {"API": _of_account(before), **places}


def contradictions(sample: Mapping[str, Values]) -> list[str]:
    """Return a line for each figure that has different values in two places."""
    found = []
    for name in FIGURES:
        values = {place: shown[name] for place, shown in sample.items() if name in shown}
        rounded = ROUNDED_RATE if name == "pages_per_s" else ROUNDED
        if max(values.values(), default=0.0) - min(values.values(), default=0.0) > rounded:
            found.append(f"{name}: " + ", ".join(f"{place} {value:g}" for place, value in values.items()))
    return found


def _collections(get: Get) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(get("/api/v1/c"))["collections"]
    return found


def _of_account(account: Mapping[str, Any]) -> dict[str, float]:
    values = {name: figure.value(account) for name, figure in FIGURES.items() if name != "pages_per_s_now"}
    return {name: float(value) for name, value in values.items() if isinstance(value, (int, float))}


def _of_list(line: Mapping[str, Any]) -> dict[str, float]:
    return _of_account(line) | _named(line, {"fresh": "freshness.fresh", "bound": "freshness.possible"})


def _named(record: Mapping[str, Any], figures: Mapping[str, str]) -> dict[str, float]:
    """Return figures that have other keys in a record."""
    return {figure: float(record[key]) for key, figure in figures.items() if record.get(key) is not None}


def _of_metrics(text: str, name: str) -> dict[str, float]:
    samples = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels.get("collection") == name
    }
    return {key: samples[each.metric] for key, each in FIGURES.items() if each.metric in samples}


def _of_page(text: str) -> dict[str, float]:
    return {
        name: float(shown.replace(",", "")) / (100.0 if unit == "percent" else 1.0)
        for name, unit, shown in _SHOWN.findall(text)
        if name in FIGURES
    }


# ---- a live crawl ----------------------------------------------------------------------------------------------------


def _start_demo(data: Path, pages: int) -> tuple[subprocess.Popen[str], Get]:
    words = ["demo", "--pages", str(pages), "--seed", "7", "--web-port", "0", "--data", str(data)]
    process = subprocess.Popen(
        [sys.executable, "-m", "teia", *words], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stderr is not None
    said = ""
    while (found := _LOGIN.search(said)) is None:
        line = process.stderr.readline()
        if not line:
            raise SystemExit(said)
        said += line
    base, code = found[1], found[2]
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
    form = urllib.parse.urlencode({"code": code, "name": "bench", "password": PASSWORD}).encode()
    opener.open(f"{base}/login/first", form, timeout=60).close()

    def get(path: str) -> str:
        with opener.open(base + path, timeout=60) as answer:
            text: str = answer.read().decode()
            return text

    return process, get


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--pages", type=int, default=400)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        process, get = _start_demo(Path(folder) / "data", given.pages)
        try:
            root, samples, crossed, found = open_root(Path(folder) / "data"), 0, 0, list[str]()
            while samples < given.samples:
                sample = read_sample(get, root, NAME)
                if sample is None:
                    crossed += 1
                    continue
                samples += 1
                found += contradictions(sample)
                time.sleep(0.2)
        finally:
            os.killpg(process.pid, signal.SIGINT)
            process.wait(60)
    print(json.dumps({"samples": samples, "crossed": crossed, "contradictions": found}))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
