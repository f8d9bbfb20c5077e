"""Broad crawl: very many hosts of one page each, found little by little.

    python -m bench.broad --hosts 500 50000

nginx answers for every host name, with a page of its own for each; no host has a robots.txt. The hosts are found on
pages of a hub, each of which links to a thousand of them and to the next page. Reported for each number of hosts:
requests a second, processor time of teia for a request (without that of nginx), and the memory of all its processes
when a fifth, two fifths … of the crawl was over. The processor time of a crawl of one page, which is that of the start,
is subtracted: the least of three, because a first one finds files that are not in memory yet.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.peers.loopback import confine
from bench.peers.measure import Cost, measure
from bench.peers.site import serving_nginx

HUB = "http://hub.test/pages/0.html"
HOSTS_PER_PAGE = 1_000
ADDRESSES = 10
AT_ONCE = 16
SHOWN_SAMPLES = 5
STARTS = 3
LIMIT_S = 3_600.0

_CONFIGURATION = """\
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 8192; }}
http {{
    types {{ text/html html; }}
    default_type text/html;
    client_body_temp_path {folder}/temporary; proxy_temp_path {folder}/temporary;
    fastcgi_temp_path {folder}/temporary; uwsgi_temp_path {folder}/temporary; scgi_temp_path {folder}/temporary;
    access_log off;
    keepalive_timeout 5s;
    server {{
        listen {port} backlog=4096;
        location /pages/ {{ root {folder}; }}
        location = / {{
            return 200 "<!DOCTYPE html><title>$host</title><p>The only page of $host, a host in a broad crawl.";
        }}
        location / {{ return 404; }}
    }}
}}
"""


def write_hub(folder: Path, hosts: int) -> None:
    """Write the pages that link to all hosts."""
    (folder / "pages").mkdir()
    for number, first in enumerate(range(0, hosts, HOSTS_PER_PAGE)):
        named = range(first, min(hosts, first + HOSTS_PER_PAGE))
        links = "".join(f'<a href="http://h{each}.test/">{each}</a>' for each in named)
        more = f'<a href="{number + 1}.html">more</a>' if named.stop < hosts else ""
        (folder / "pages" / f"{number}.html").write_text(f"<!DOCTYPE html><title>hub</title>{links}{more}", "ascii")


def command(port: int, data: Path) -> list[str]:
    """Return the crawl of all hosts; names that end in different digits have different addresses."""
    resolve = [word for each in range(ADDRESSES) for word in ("--resolve", f"*{each}.test=127.1.0.{each + 1}:{port}")]
    return [
        sys.executable, "-m", "teia", "crawl", HUB, "--data", str(data), "--json", "--delay", "0",
        "--per-host", str(AT_ONCE), "--allow-net", "127.0.0.0/8", "--scope", "suffix:.test", "--max-depth", "1000000",
        *resolve, "--resolve", f"hub.test=127.1.0.250:{port}",
    ]  # fmt: skip


def crawl(hosts: int, *, archive: bool) -> tuple[Cost, dict[str, Any], list[tuple[float, int]]]:
    """Crawl so many hosts; return the cost, the summary and samples of the memory."""
    samples: list[tuple[float, int]] = []
    environ = {"TEIA_INDEX_ENABLED": "false"}
    if not archive:
        environ |= {"TEIA_PARSE_TEXT": "false", "TEIA_ARCHIVE_ANSWERS": "false"}
    with tempfile.TemporaryDirectory(prefix="teia-bench-") as name:
        folder = Path(name)
        (folder / "temporary").mkdir()
        write_hub(folder, hosts)
        with serving_nginx(folder, _CONFIGURATION) as port:
            crawled = command(port, folder / "data")
            cost = measure(crawled, environ, folder, LIMIT_S, (0,), lambda *sample: samples.append(sample))
    summary: dict[str, Any] = json.loads(cost.output_tail[cost.output_tail.rindex("\n{") + 1 :])
    return cost, summary, samples


def row(hosts: int, start: Cost, *, archive: bool) -> dict[str, Any]:
    """Return the figures of a crawl."""
    cost, summary, samples = crawl(hosts, archive=archive)
    assert summary["pages"] >= hosts, f"{summary['pages']} pages of {hosts} hosts"
    parts = [samples[len(samples) * part // SHOWN_SAMPLES - 1] for part in range(1, SHOWN_SAMPLES + 1)]
    return {
        "hosts": hosts,
        "requests": summary["requests"],
        "requests_per_s": round(summary["requests"] / cost.seconds, 1),
        "cpu_ms_per_request": round(1000 * (cost.cpu_s - start.cpu_s) / summary["requests"], 3),
        "seconds": round(cost.seconds, 1),
        "peak_mb": round(cost.peak_rss_bytes / 2**20),
        "memory_mb": [round(rss_bytes / 2**20) for _, rss_bytes in parts],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, nargs="+", default=[500, 10_000, 50_000])
    parser.add_argument("--archive", action="store_true", help="store answers and read texts, as by default")
    arguments = parser.parse_args()
    only_loopback = confine()
    start = min((crawl(1, archive=arguments.archive)[0] for _ in range(STARTS)), key=lambda cost: cost.cpu_s)
    rows = []
    for hosts in arguments.hosts:
        rows.append(row(hosts, start, archive=arguments.archive))
        print(json.dumps(rows[-1]), file=sys.stderr)
    print(json.dumps({"rows": rows, "archive": arguments.archive, "only_loopback": only_loopback}))


if __name__ == "__main__":
    main()
