"""The circle of nodes and cells (A2, A11, UX 2.11): one machine as it is, several as they are told."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from teia.clock import WallClock
from teia.cluster.circle.host_cell import cell_of_host
from teia.collections.control_file import CrawlReports
from teia.store.root import open_root
from teia.web import events
from teia.web.access.accounts import Accounts
from teia.web.access.roles import Role
from teia.web.server.installation import Installation
from tests.web.clusters import TIME, FixedSource, three_nodes
from tests.web.conftest import QUICK, Web, app_of


@pytest.fixture(scope="module")
def served(crawled_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Web, TestClient]]:
    """One application for all of these, and a viewer; what is told of the cluster is theirs to change."""
    data, clock = tmp_path_factory.mktemp("cluster") / "data", WallClock()
    shutil.copytree(crawled_data, data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("teia.web.limits.REQUESTS_AT_ONCE", 100_000)
        installation = Installation(open_root(data), clock, Accounts(data / "web.sqlite", clock, QUICK))
        web = Web(app_of(installation), installation)
        yield web, web.client(Role.VIEWER)
        installation.close()


@pytest.fixture
def web(served: tuple[Web, TestClient]) -> Iterator[Web]:
    alone = served[0].installation.cluster
    yield served[0]
    served[0].installation.cluster = alone


@pytest.fixture
def client(served: tuple[Web, TestClient]) -> TestClient:
    return served[1]


def text_of(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", page))


def test_one_machine_shows_itself_and_nothing_that_it_has_not(web: Web, client: TestClient) -> None:
    twin, page = client.get("/api/v1/cluster").json(), client.get("/cluster").text
    (node,) = twin["nodes"]
    cells = web.installation.root.collection("main").cells()
    assert (node["name"], node["cells"], node["state"]) == (twin["here"], len(cells), "off")
    assert node["share"] == 1.0
    assert node["load"] >= 0
    assert [node[key] for key in ("region", "pages_per_s", "lag_s", "seen")] == [None] * 4, "nobody crawls"
    assert (twin["moves"], twin["links"], twin["silent"], twin["where"]) == ([], [], [], None)
    assert [cell["keeper"] for cell in twin["cells"]] == [node["name"]] * len(cells)
    assert sum(cell["urls"] for cell in twin["cells"]) == client.get("/api/v1/c/main/status").json()["urls_known"] == 4
    assert page.count('data-cell="') == len(cells)
    assert "One machine owns everything." in page
    assert "no crawler runs" in page
    assert "Moves" not in text_of(page), "one machine has none"
    assert "--node" in page, "what a second one would do"


def test_a_crawl_that_runs_is_seen(web: Web, client: TestClient) -> None:
    now_s = web.installation.clock.now_s()
    control = CrawlReports(web.installation.root.path / "control.sqlite")
    control.begin("main", now_s)
    control.write_account("main", {"state": "running"}, now_s)
    for ago_s, pages in ((15.0, 0), (10.0, 50), (5.0, 100)):
        control.note_point("main", 5.0, now_s - ago_s, (pages, pages, 0, 0, None, None))
    with web.installation.root.locked():
        (node,) = client.get("/api/v1/cluster").json()["nodes"]
    control.end("main")
    control.close()
    assert (node["state"], node["pages_per_s"]) == ("normal", 10.0)
    assert node["seen"] is not None


def test_a_host_is_looked_up(client: TestClient) -> None:
    asked = client.get("/api/v1/cluster?host=HTTPS://WWW.X.test:8000/lei").json()
    (home,) = asked["where"]["homes"]
    place = cell_of_host("www.x.test", len(asked["cells"]))
    assert (asked["where"]["host"], asked["where"]["site"], asked["where"]["slot"]) == (
        "www.x.test",
        "x.test",
        place.slot,
    )
    assert (home["number"], home["keeper"], home["home"], home["hops"]) == (
        place.cell,
        asked["here"],
        asked["here"],
        [],
    )
    page = text_of(client.get("/cluster?host=www.x.test").text)
    assert f"cell {place.cell:02d} → node {asked['here']}" in page
    assert f"slot {place.slot}" in page


def test_an_invalid_host_is_reported(client: TestClient) -> None:
    for query in ("host=a b", "host=http://", "host=%00", "host=x.test&from=nobody", "host=" + "a" * 3_000):
        answer = client.get(f"/api/v1/cluster?{query}")
        assert (answer.status_code, answer.json()["field"]) == (400, "host")
        assert client.get(f"/cluster?{query}").status_code == 400


def test_unknown_nodes_and_collections_are_not_found(client: TestClient) -> None:
    for address in ("/cluster?c=nowhere", "/cluster/nodes/nobody", "/cluster/nodes/%3Cscript%3E"):
        for twin in ("", "/api/v1"):
            answer = client.get(twin + address)
            assert answer.status_code == 404, address
            assert twin or "<script>" not in answer.text


def test_several_nodes_are_shown_as_the_view_has_them(web: Web, client: TestClient) -> None:
    view = three_nodes()
    web.installation.cluster = FixedSource(view)
    twin, page = client.get("/api/v1/cluster").json(), client.get("/cluster").text
    assert len(page) < 100_000
    assert [(each["name"], each["letter"], each["hue"]) for each in twin["nodes"]] == [
        ("node-a", "a", 1), ("node-b", "b", 2), ("node-c", "c", 3)
    ]  # fmt: skip
    for each in twin["nodes"]:
        arcs = re.findall(rf'<g data-node="{each["name"]}" data-cell="[^"]+" class="cell n{each["hue"]}', page)
        assert len(arcs) == each["cells"], each["name"]
    assert len(re.findall(r'class="cell n\d moving"', page)) == 1, "hatched while it moves"
    assert len(re.findall(r'data-node="" data-cell="main/63" class="cell n0 lost"', page)) == 1, "red without a keeper"
    shown = text_of(page)
    assert "1 cell has no owner." in shown
    (silence,) = twin["silent"]
    assert (silence["node"], silence["seconds"], silence["dies_in_s"]) == ("node-b", 9.0, 6.0)
    assert silence["heirs"] == ["node-a", "node-c"]
    said = f"Its {silence['cells']} cells pass to node-a, node-c when it is declared dead, in 6 s. Nothing is lost."
    assert said in shown
    assert "0.61" in shown
    assert "overloaded" in shown
    assert "3.1 s" in shown


def test_the_way_over_fingers_is_shown(web: Web, client: TestClient) -> None:
    """A2: every hop follows a finger of the node before it, and the last one reaches the keeper."""
    web.installation.cluster = FixedSource(three_nodes())
    found = set()
    for number in range(12):
        asked = f"host=h{number}.test&from=node-b"
        where = client.get(f"/api/v1/cluster?{asked}").json()["where"]
        (home,) = where["homes"]
        ends = [where["start"], *(hop["end"] for hop in home["hops"])]
        assert ends[-1] == home["home"]
        assert [hop["start"] for hop in home["hops"]] == ends[:-1]
        assert home["order"][0] == home["home"]
        page = client.get(f"/cluster?{asked}").text
        assert page.count('class="way hop"') == len(home["hops"])
        found.add(len(home["hops"]))
    assert len(found) > 1, "some are the asker's own, some far"


def test_a_node_has_its_neighbours_and_fingers(web: Web, client: TestClient) -> None:
    web.installation.cluster = FixedSource(three_nodes())
    twin, page = client.get("/api/v1/cluster/nodes/node-c").json(), client.get("/cluster/nodes/node-c").text
    assert (twin["points"], twin["node"]["capacity"], twin["index"]) == (128, 2.0, 2)
    assert sorted(twin["successors"]) == ["node-a", "node-b"]
    assert twin["predecessor"] in {"node-a", "node-b"}
    assert len(twin["kept"]) == twin["node"]["cells"]
    assert [each["exponent"] for each in twin["fingers"]] == sorted(each["exponent"] for each in twin["fingers"])
    leading = [each for each in twin["fingers"][1:] if each["node"] != "node-c"]
    assert page.count('class="way finger"') == len(leading)
    assert twin["id"] in page


def test_a_dead_node_stands_on_no_circle(web: Web, client: TestClient) -> None:
    view = three_nodes()
    nodes = [replace(node, state="dead", cells=0) if node.name == "node-b" else node for node in view.nodes]
    web.installation.cluster = FixedSource(replace(view, nodes=nodes))
    twin = client.get("/api/v1/cluster/nodes/node-b").json()
    assert (twin["points"], twin["fingers"], twin["node"]["share"]) == (0, [], 0.0)
    assert client.get("/cluster/nodes/node-b").status_code == 200
    assert client.get("/api/v1/cluster?host=x.test&from=node-b").status_code == 400


def test_many_cells_are_drawn_as_few_arcs(web: Web, client: TestClient) -> None:
    web.installation.cluster = FixedSource(three_nodes(cells=1_024))
    page = client.get("/cluster").text
    assert page.count('data-cell="') < 300
    assert len(page) < 200_000
    assert len(client.get("/api/v1/cluster").json()["cells"]) == 1_024


def test_names_of_nodes_are_foreign_text(web: Web, client: TestClient) -> None:
    view, evil = three_nodes(), "<img src=x>"
    nodes = [replace(node, region=evil) for node in view.nodes]
    web.installation.cluster = FixedSource(replace(view, nodes=nodes))
    assert evil not in client.get("/cluster").text


def test_it_is_shown_live(web: Web, client: TestClient) -> None:
    web.installation.cluster = FixedSource(three_nodes())
    told = json.loads(events._compute_state(web.installation, events.TOPICS["cluster"], "", "main").text)
    assert told["time"] == TIME
    assert told == client.get("/api/v1/cluster?c=main").json()


def test_without_a_collection_there_is_nothing_to_keep(web: Web, client: TestClient) -> None:
    view = three_nodes()
    web.installation.cluster = FixedSource(replace(view, cells=[]))
    page = client.get("/cluster?host=x.test").text
    assert "No collection yet" in page
    assert 'class="ring"' not in page
