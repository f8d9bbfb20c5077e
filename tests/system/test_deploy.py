"""The files of deploy/: each is used as docs/operate.md says, by the program that it is for."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import teia
from bench.peers.site import serving_nginx
from teia.cli.cluster.commands import key
from teia.clock import WallClock
from teia.cluster.nats.servers import allocate_servers, find_server, make_key
from teia.collections.figures import FIGURES
from teia.errors import UsageError
from teia.store.root import open_root
from teia.transfer.disk_use import backup_commands
from teia.web.pages.machine import metrics
from teia.web.serve import serve
from tests.waiting import until

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
NAME = "search.example.org"
MOST_EXPOSED = 2.5


@pytest.mark.parametrize("unit", sorted((DEPLOY / "systemd").glob("*.service")), ids=lambda path: path.name)
def test_a_unit_is_hardened(unit: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not here")
    command = ["systemd-analyze", "security", "--offline=yes", "--no-pager", str(unit)]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    level = re.search(r"Overall exposure level for .*: ([\d.]+)", said)
    assert level is not None, said
    assert float(level[1]) <= MOST_EXPOSED, said


# ---- the reverse proxy ----------------------------------------------------------------------------------------------


@contextmanager
def served(folder: Path) -> Iterator[int]:
    """Run `teia serve` as behind a proxy; yield its port."""
    open_root(folder, create=True)
    words = ["serve", "--data", str(folder), "--port", "0", "--behind-proxy", "--no-crawler", "--name", NAME]
    with subprocess.Popen([sys.executable, "-m", "teia", *words], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            found = re.search(r"http://127\.0\.0\.1:(\d+)/", process.stderr.readline())
            assert found is not None
            yield int(found[1])
        finally:
            process.terminate()
            process.communicate(timeout=30)


def proxy_configuration(folder: Path, backend: int) -> str:
    """The file of deploy/ inside a whole configuration; addresses, ports and the certificate are the test's own."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
         "-subj", f"/CN={NAME}", "-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")],
        capture_output=True, check=True,
    )  # fmt: skip
    text = (DEPLOY / "nginx" / "teia.conf").read_text("utf-8")
    text = re.sub(r"listen \[::\].*\n", "", text).replace("{", "{{").replace("}", "}}")
    for old, new in (
        ("listen 80;", "listen unix:{folder}/plain.sock;"),
        ("listen 443 ssl", "listen 127.0.0.1:{port} ssl"),
        ("/etc/letsencrypt/live/search.example.org/fullchain.pem", "{folder}/cert.pem"),
        ("/etc/letsencrypt/live/search.example.org/privkey.pem", "{folder}/key.pem"),
        ("127.0.0.1:8700", f"127.0.0.1:{backend}"),
    ):
        assert old in text
        text = text.replace(old, new)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = " ".join(f"{kind}_temp_path {{folder}}/{kind};" for kind in kinds)
    main = "daemon off; master_process off; pid {folder}/nginx.pid; events {{ }}\n"
    return f"{main}http {{{{ access_log off; {temporary}\n{text}\n}}}}\n"


def over_tls(port: int, method: str, path: str, body: str = "", **headers: str) -> tuple[int, http.client.HTTPMessage]:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with closing(http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=30)) as connection:
        connection.request(method, path, body, {"Host": NAME, **headers})
        answer = connection.getresponse()
        assert answer.read() or method == "POST"
        return answer.status, answer.headers


def test_nginx_with_tls_passes_names_schemes_and_addresses_on(tmp_path: Path, program: Callable[[str], str]) -> None:
    program("nginx")
    with served(tmp_path / "data") as backend:
        with serving_nginx(tmp_path, proxy_configuration(tmp_path, backend)) as port:
            status, headers = over_tls(port, "GET", "/login")
            assert (status, headers["strict-transport-security"]) == (200, "max-age=31536000")
            form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"https://{NAME}"}
            status, headers = over_tls(port, "POST", "/choose", "language=pt-BR", **form)
            assert (status, "; Secure" in str(headers["set-cookie"])) == (303, True)
            with socket.socket(socket.AF_UNIX) as plain:
                plain.connect(str(tmp_path / "plain.sock"))
                plain.sendall(f"GET /c?q=1 HTTP/1.0\r\nHost: {NAME}\r\n\r\n".encode())
                assert f"Location: https://{NAME}/c?q=1".encode() in plain.recv(4_096)
        with closing(http.client.HTTPConnection("127.0.0.1", backend, timeout=30)) as direct:
            direct.request("GET", "/", headers={"Host": "elsewhere.example.org"})
            assert direct.getresponse().status == 421


def test_a_server_that_others_reach_believes_no_proxy(tmp_path: Path) -> None:
    """Anybody could send it the headers of a proxy."""
    with pytest.raises(UsageError, match="listen on 127"):
        serve(open_root(tmp_path, create=True), WallClock(), "0.0.0.0", 0, (), None, print, behind_proxy=True)


# ---- three NATS servers ---------------------------------------------------------------------------------------------


def test_three_nats_servers_by_the_files_find_each_other_and_demand_a_key(tmp_path: Path) -> None:
    servers, public = allocate_servers(3), make_key(tmp_path / "node.key")
    routes = (DEPLOY / "nats" / "routes.conf").read_text("utf-8").replace("replace-me", "secret")
    for number, server in enumerate(servers, 1):
        routes = routes.replace(f"10.0.0.{number}:6222", f"{server.address}:{server.route}")
    processes = []
    try:
        for server in servers:
            folder = tmp_path / server.name
            folder.mkdir()
            machine = (DEPLOY / "nats" / "machine.conf").read_text("utf-8").replace("UREPLACEME", public)
            machine = machine.replace("nats-1", server.name).replace("10.0.0.1", server.address)
            common = (DEPLOY / "nats" / "nats.conf").read_text("utf-8")
            for old, new in (
                ("port: 4222", f"port: {server.client}"),
                ("port: 6222", f"port: {server.route}"),
                ("127.0.0.1:8222", f"{server.address}:{server.monitor}"),
                ("/var/lib/teia-nats", str(folder / "store")),
            ):
                assert old in common
                common = common.replace(old, new)
            (folder / "machine.conf").write_text(machine.replace("replace-me", "secret"), "utf-8")
            (folder / "routes.conf").write_text(routes, "utf-8")
            (folder / "nats.conf").write_text(common, "utf-8")
            command = [find_server(), "-c", str(folder / "nats.conf")]
            processes.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        views = until(
            lambda: _complete([_ask(server.address, server.monitor, "/jsz?meta=1") for server in servers]),
            "three servers have one leader",
        )
        assert {view["meta_cluster"]["cluster_size"] for view in views} == {3}
        assert all(view["config"]["sync_interval"] for view in views)
        info = _ask(servers[0].address, servers[0].monitor, "/varz")
        assert (info["auth_required"], info["max_payload"], len(info["cluster"]["urls"])) == (True, 1 << 20, 3)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _ask(address: str, port: int, path: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"http://{address}:{port}{path}", timeout=5) as answer:
            return dict(json.load(answer))
    except OSError:
        return {}


def _complete(views: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The views, once all servers have one leader and know of all; two are enough for a leader."""
    clusters = [view.get("meta_cluster", {}) for view in views]
    leaders = {cluster.get("leader") for cluster in clusters}
    has_leader = len(leaders) == 1 and None not in leaders and "" not in leaders
    return views if has_leader and all(cluster["cluster_size"] == len(views) for cluster in clusters) else []


def test_a_key_for_nodes_is_private_and_never_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key(tmp_path / "node.key")
    assert re.fullmatch(r"U[A-Z2-7]{55}\n", capsys.readouterr().out)
    assert (tmp_path / "node.key").stat().st_mode & 0o077 == 0
    with pytest.raises(UsageError, match="is not replaced"):
        key(tmp_path / "node.key")


# ---- alerts and dashboard -------------------------------------------------------------------------------------------


def _metrics() -> set[str]:
    """The names of all metrics, as Prometheus stores them."""
    counters = {"outcomes", "cluster_moves", *(f"cluster_node_{name}" for name in metrics.NODE_COUNTERS)}
    gauges = {"running", "disk_free_bytes", "cluster_nodes", "cluster_node_cells", "cluster_cell_urls"}
    gauges |= {"cluster_cell_kept", *(f"cluster_node_{name}" for name in metrics.NODE_GAUGES)}
    named = {f"teia_{name}_total" for name in counters} | {f"teia_{name}" for name in gauges}
    return named | {figure.metric for figure in FIGURES.values() if figure.metric}


@pytest.mark.parametrize("file", ["prometheus/teia-alerts.yml", "grafana/teia.json"])
def test_alerts_and_panels_read_metrics_that_exist(file: str) -> None:
    named = set(re.findall(r"\bteia_[a-z_]+", (DEPLOY / file).read_text("utf-8")))
    assert len(named) > 5
    assert named <= _metrics()


def test_the_dashboard_has_a_query_in_every_panel() -> None:
    dashboard = json.loads((DEPLOY / "grafana" / "teia.json").read_text("utf-8"))
    assert {panel["datasource"]["uid"] for panel in dashboard["panels"]} == {"${datasource}"}
    assert all(target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]}) == len(
        dashboard["panels"]
    )


def test_promtool_accepts_the_alerts(program: Callable[[str], str]) -> None:
    command = [program("promtool"), "check", "rules", str(DEPLOY / "prometheus" / "teia-alerts.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "9 rules found" in done.stdout) == (0, True), done.stdout + done.stderr


# ---- years ----------------------------------------------------------------------------------------------------------


def test_logrotate_reads_its_file(tmp_path: Path) -> None:
    rotate = shutil.which("logrotate", path="/usr/sbin:/usr/bin")
    if rotate is None:
        pytest.skip("logrotate is not here")
    log = tmp_path / "crawler.log"
    log.write_text("line\n" * 100, "utf-8")
    text = (DEPLOY / "logrotate" / "teia").read_text("utf-8").replace("/var/lib/teia/crawler.log", str(log))
    (tmp_path / "teia").write_text(text.replace("    su teia teia\n", ""), "utf-8")
    (tmp_path / "teia").chmod(0o644)
    with log.open("a", encoding="utf-8") as crawler:
        command = [rotate, "--force", "--state", str(tmp_path / "state"), str(tmp_path / "teia")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        crawler.write("after\n")
    assert log.read_text("utf-8") == "after\n", "the crawler goes on in the same file"
    assert (tmp_path / "crawler.log.1").read_text("utf-8").count("line") == 100


class TwelvePages(BaseHTTPRequestHandler):
    """A site of twelve pages; each links to all."""

    def do_GET(self) -> None:
        number = int(self.path.strip("/") or 0) if self.path.strip("/").isdecimal() or self.path == "/" else 99
        self.send_response(200 if number < 12 else 404)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(
            f"<title>{number}</title>".encode() + b"".join(b'<a href="/%d">x</a>' % n for n in range(1, 12))
        )

    def log_message(self, *_: Any) -> None:
        pass


def test_a_destroyed_folder_is_restored_from_its_backup_without_loss(
    tmp_path: Path, program: Callable[[str], str]
) -> None:
    """The commands are those of the page *Data*: rsync, then an audit of the copy."""
    program("rsync")
    data, crawl = tmp_path / "data", {"allow_net": ["127.0.0.0/8"], "delay": 0.0}
    server = ThreadingHTTPServer(("127.0.0.1", 0), TwelvePages)
    Thread(target=server.serve_forever, daemon=True).start()
    teia.crawl(f"http://127.0.0.1:{server.server_port}/", data=data, max_pages=6, **crawl)
    with teia.open(data) as collection:
        before = sorted((each["url"], each["time_s"], each["digest"]) for each in collection.captures())
        queued = sorted(each["url"] for each in collection.urls() if each["state"] == "queued")
    copy, _audit = backup_commands(str(data), "main", []).whole
    subprocess.run(copy.replace("BACKUP", str(tmp_path / "backup")).split(), check=True)
    shutil.rmtree(data)
    shutil.copytree(tmp_path / "backup", data)
    with teia.open(data) as collection:
        assert sorted((each["url"], each["time_s"], each["digest"]) for each in collection.captures()) == before
        assert sorted(each["url"] for each in collection.urls() if each["state"] == "queued") == queued
        assert (collection.audit_archive().violations, len(before), bool(queued)) == (0, 6, True)
    after = teia.crawl(data=data, limits={"pages": 0}, **crawl)
    server.shutdown()
    server.server_close()
    assert (after.state, after.pages) == ("finished", 12 - len(before))
