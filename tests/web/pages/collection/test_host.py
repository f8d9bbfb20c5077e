"""Hosts and one host (UX 2.7)."""

from __future__ import annotations

import csv
import io
import re
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest

from teia.clock import Clock, from_iso
from teia.collections.settings import SettingsChange, change
from teia.crawler.lookup import Lookup
from teia.errors import StoreError
from teia.frontier.cell import site_statements
from teia.frontier.cell.cell import FrontierCell
from teia.records import Edit, Operator
from teia.signals.trust import SignalKind, SignalSource
from teia.store.root import Root
from teia.views.hosts import host_table
from teia.web.access.roles import Role
from tests.frontier.cells import add_links, found
from tests.web.conftest import Web
from tests.web.pages.collection.test_monitor import text_of


def test_the_list_and_its_twin_agree(web: Web) -> None:
    client = web.client(Role.VIEWER)
    twin, page = client.get("/api/v1/c/main/hosts").json(), client.get("/c/main/hosts").text
    (row,) = twin["rows"]
    assert (row["host"], row["urls"], row["visited"], row["waiting"], row["state"]) == ("x.test", 4, 4, 0, "idle")
    assert "x.test" in page
    assert "1 host" in page
    assert client.get("/api/v1/hosts").json()["rows"] == twin["rows"]
    (in_csv,) = csv.DictReader(io.StringIO(client.get("/c/main/hosts.csv").text))
    assert (in_csv["host"], in_csv["urls"]) == ("x.test", "4")


@pytest.mark.parametrize(
    ("query", "found"),
    [("find=X.TE", 1), ("find=y", 0), ("state=idle", 1), ("state=slow", 0), ("sort=pass", 1), ("offset=1", 0)],
)
def test_hosts_are_found_by_name_and_state(web: Web, query: str, found: int) -> None:
    client = web.client(Role.VIEWER)
    assert len(client.get(f"/api/v1/c/main/hosts?{query}").json()["rows"]) == found
    assert client.get(f"/c/main/hosts?{query}").status_code == 200


def test_hosts_are_found_by_what_is_in_their_way(web: Web) -> None:
    """UX 2.7: every reason with how many hosts have it; asking for it gives those."""
    client = web.client(Role.VIEWER)
    assert set(client.get("/api/v1/c/main/hosts").json()["reasons"].values()) == {0}
    change(web.installation.root, "main", [Edit("courtesy.paused", Operator.ADD, "x.test")], web.installation.clock)
    web.installation.cache.invalidate(("hosts", "main"))
    found = client.get("/api/v1/c/main/hosts?reason=paused").json()
    assert [row["reasons"] for row in found["rows"]] == [["paused"]]
    assert (found["reasons"]["paused"], found["reasons"]["parked"]) == (1, 0)
    assert client.get("/api/v1/c/main/hosts?reason=errors").json()["rows"] == []
    page = client.get("/c/main/hosts?reason=paused").text
    assert '<option value="paused" selected>paused by an operator (1)</option>' in page
    assert client.get("/api/v1/c/main/hosts?reason=x").json()["field"] == "reason"
    (in_csv,) = csv.DictReader(io.StringIO(client.get("/c/main/hosts.csv").text))
    assert in_csv["reasons"] == "paused"
    assert "hosts.csv?reason=paused" in page
    assert client.get("/c/main/hosts.csv?reason=errors").text.count("\n") == 1, "only its head"


@pytest.mark.parametrize("query", ["state=x", "sort=;", "offset=-1", "n=0", "n=1e9", "offset=99999999999999999999"])
def test_bad_values_are_refused_with_their_field(web: Web, query: str) -> None:
    answer = web.client(Role.VIEWER).get(f"/api/v1/c/main/hosts?{query}")
    assert answer.status_code == 400
    assert answer.json()["field"] == query.partition("=")[0]


def test_one_host_says_how_long_a_pass_takes(web: Web) -> None:
    """UX acceptance 15: pages x rest."""
    client = web.client(Role.VIEWER)
    twin = client.get("/api/v1/c/main/hosts/x.test").json()
    now = twin["now"]
    assert now["pages"] == 4
    assert now["pass_s"] == pytest.approx(4 * (now["delay_s"] + now["response_s"]))
    assert twin["about"]["requests_seen"] == twin["about"]["requests"] == 5
    page = client.get("/c/main/hosts/x.test").text
    assert "a full pass takes" in page
    assert "(4 pages)" in page
    assert "Less than a week." in page
    asked = client.get("/api/v1/c/main/hosts/x.test/feasibility?delay_s=5&pages=535700").json()
    assert asked["pass_s"] == pytest.approx(535_700 * 5, rel=0.01)
    assert "31 d" in client.get("/c/main/hosts/x.test?delay_s=5&pages=535700").text


def test_a_host_whose_pages_are_kept_fresh_says_what_a_week_has_for_them(web: Web) -> None:
    """UX 2.7: the plan gives so many visits a week to known pages."""
    client = web.client(Role.VIEWER)
    assert client.get("/api/v1/c/main/hosts/x.test").json()["plan"] is None
    change(web.installation.root, "main", [Edit("refresh.keep", Operator.SET, True)], web.installation.clock)
    plan = client.get("/api/v1/c/main/hosts/x.test").json()["plan"]
    assert plan["known"] > 0
    assert f"The plan gives {plan['known']:,} visits a week to known pages" in client.get("/c/main/hosts/x.test").text


def test_the_possible_freshness_of_now_is_not_shown_for_another_delay(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It follows from visits that were made; what can be kept in the long run does depend on the delay."""
    monkeypatch.setattr("teia.web.pages.collection.host.ESTIMATE_PATIENCE_S", 60.0)
    client, path = web.client(Role.VIEWER), "/api/v1/c/main/hosts/x.test"
    found = client.get(path).json()
    own_s = found["now"]["delay_s"]
    same, other = (client.get(f"{path}?delay_s={delay_s}").json()["possible_asked"] for delay_s in (own_s, 86_000))
    assert same["possible"] == found["possible"]["possible"] is not None
    assert other["possible"] is None
    assert other["best"] < same["best"]
    assert client.get("/c/main/hosts/x.test?delay_s=86000").status_code == 200


def test_a_host_nobody_knows_is_reported_as_unknown(web: Web) -> None:
    client = web.client(Role.VIEWER)
    for host in ("nobody.test", "%3Cscript%3E", "x.test%00", "a" * 5_000):
        answer = client.get(f"/c/main/hosts/{host}")
        assert answer.status_code == 404
        assert "<script>" not in answer.text
    for query in ("delay_s=-1", "delay_s=nan", "pages=0", "delay_s=x"):
        assert client.get(f"/api/v1/c/main/hosts/x.test?{query}").status_code == 400, query


def test_an_operator_treats_a_host_and_it_is_written_down(web: Web) -> None:
    """C2, T5: paused, blocked, given a longer rest, robots.txt read anew; each can be taken back."""
    client, to = web.client(Role.OPERATOR), "/c/main/hosts/x.test"

    def do(deed: str, **more: str) -> dict[str, object]:
        answer = client.post(to, data={"deed": deed, "csrf": web.csrf(client), **more})
        assert (answer.status_code, answer.headers.get("location")) == (303, to), answer.text
        twin: dict[str, object] = client.get(f"/api/v1{to}").json()
        return twin

    assert do("pause")["is_paused"] is True
    assert web.installation.config("main").courtesy.paused == ("x.test",)
    assert "parked" in client.get("/c/main/hosts").text
    assert do("resume")["is_paused"] is False
    assert do("block")["is_blocked"] is True
    assert web.installation.config("main").scope.exclude == ("host:x.test",)
    assert do("unblock")["is_blocked"] is False
    twin = do("delay", delay_s="20")
    assert twin["own_delay_s"] == 20
    assert twin["now"]["delay_s"] == 20, "a pass takes longer"  # type: ignore[index]
    assert do("delay", delay_s="")["own_delay_s"] is None
    assert do("robots")["rereads"]
    page = client.get(to).text
    assert "will be fetched again as soon as its delay allows" in page
    noted = [each.what for _, each in web.installation.accounts.logged_actions(10)]
    deeds = ["robots", "delay", "delay", "unblock", "block", "resume", "pause"]
    assert noted[:7] == [f"treat host: {deed}" for deed in deeds]


def test_a_shorter_delay_needs_somebody_who_agreed_and_a_budget_is_set_by_form(web: Web) -> None:
    """UX 2.7: who agreed is shown and written down; below a second an admin decides; each can be taken back."""
    change(web.installation.root, "main", [Edit("courtesy.delay_s", Operator.SET, 5.0)], web.installation.clock)
    client, to = web.client(Role.OPERATOR), "/c/main/hosts/x.test"

    def do(**sent: str) -> dict[str, Any]:
        answer = client.post(to, data={"csrf": web.csrf(client), **sent})
        assert (answer.status_code, answer.headers.get("location")) == (303, to), answer.text
        twin: dict[str, Any] = client.get(f"/api/v1{to}").json()
        return twin

    twin = do(deed="delay", delay_s="2,5", agreed_by="Ana Souza <b>,  e-mail of 12 Nov")
    assert (twin["own_delay_s"], twin["agreed_by"]) == (2.5, "Ana Souza <b>, e-mail of 12 Nov")
    assert twin["now"]["delay_s"] == 2.5, "a pass is sooner done"
    assert web.installation.config("main").courtesy.agreed_delays == ("x.test=2.5 Ana Souza <b>, e-mail of 12 Nov",)
    page = client.get(to).text
    assert "agreed with <bdi>Ana Souza &lt;b&gt;, e-mail of 12 Nov</bdi>" in page
    change(web.installation.root, "main", [Edit("courtesy.delay_s", Operator.SET, 2.0)], web.installation.clock)
    assert "Shorter delay than other hosts" not in client.get(to).text, "all others rest less still"
    change(web.installation.root, "main", [Edit("courtesy.delay_s", Operator.SET, 5.0)], web.installation.clock)
    noted = web.installation.accounts.logged_actions(1)[0][1]
    assert (noted.what, noted.detail["delay_s"]) == ("treat host: delay", ["5", "2.5"])
    assert noted.detail["agreed_by"] == ["", "Ana Souza <b>, e-mail of 12 Nov"]
    assert do(deed="delay", delay_s="20")["agreed_by"] == "", "a longer rest ends what was agreed"
    assert do(deed="delay", delay_s="")["own_delay_s"] is None
    assert do(deed="budget", requests="1,000")["own_budget"] == 1_000
    assert web.installation.config("main").limits.host_budgets == ("x.test=1000",)
    assert web.installation.accounts.logged_actions(1)[0][1].detail["requests"] == ["1000000", "1000"]
    assert "A budget of its own: 1,000 requests in all." in client.get(to).text
    assert do(deed="budget", requests="")["own_budget"] is None


WRONG = [("delay", "delay_s", delay_s) for delay_s in ("x", "-1", "1e9", "nan", "0", "0.01")]
WRONG += [("budget", "requests", number) for number in ("x", "0", "-1", "9999999999", "1e3", "1.5", "1,0000")]


@pytest.mark.parametrize(("deed", "field", "text"), WRONG)
def test_what_a_host_cannot_be_given_is_refused_with_its_field(web: Web, deed: str, field: str, text: str) -> None:
    change(web.installation.root, "main", [Edit("courtesy.delay_s", Operator.SET, 5.0)], web.installation.clock)
    sent = {"deed": deed, field: text, "agreed_by": "Ana Souza"}
    answer = web.client().post("/api/v1/c/main/hosts/x.test", json=sent, headers=web.token(Role.OPERATOR))
    assert (answer.status_code, answer.json()["field"]) == (400, field)
    courtesy = web.installation.config("main").courtesy
    assert (courtesy.host_delays, courtesy.agreed_delays) == ((), ())


def test_a_form_that_cannot_be_comes_back_with_what_was_typed(web: Web) -> None:
    change(web.installation.root, "main", [Edit("courtesy.delay_s", Operator.SET, 5.0)], web.installation.clock)
    client, to = web.client(Role.OPERATOR), "/c/main/hosts/x.test"
    sent = {"deed": "delay", "delay_s": "2.75", "agreed_by": 'J"', "csrf": web.csrf(client)}
    answer = client.post(to, data=sent, headers={"accept-language": "pt-BR"})
    assert answer.status_code == 400
    fault = re.search(r'id="agreed_by-fault">(.*?)</span>', answer.text)
    assert fault is not None
    assert "quem autorizou" in fault[1], "in the reader's words"
    for shown in ('value="2.75"', 'value="J&#34;"', 'aria-describedby="rest-hint agreed_by-fault"', 'id="own" open'):
        assert shown in answer.text, shown
    assert client.post(to, data={**sent, "csrf": "x"}).status_code == 403


def test_less_than_a_second_is_for_an_admin_and_nobody_agrees_without_a_name(web: Web) -> None:
    change(web.installation.root, "main", [Edit("courtesy.delay_s", Operator.SET, 5.0)], web.installation.clock)
    to, sent = "/api/v1/c/main/hosts/x.test", {"deed": "delay", "delay_s": "0.5", "agreed_by": "Ana Souza"}
    by_operator = web.client().post(to, json=sent, headers=web.token(Role.OPERATOR)).json()
    assert (by_operator["field"], "an admin must approve" in by_operator["message"]) == ("delay_s", True)
    nobody = web.client().post(to, json={**sent, "agreed_by": " "}, headers=web.token(Role.ADMIN)).json()
    assert (nobody["field"], "enter who approved" in nobody["message"]) == ("agreed_by", True)
    assert web.client().post(to, json=sent, headers=web.token(Role.ADMIN)).status_code == 200
    assert web.installation.config("main").courtesy.agreed_delays == ("x.test=0.5 Ana Souza",)


def test_a_change_about_a_host_takes_back_none_about_another(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two people at the same time: one withdraws an agreement between the other's look and deed."""
    about_y = {"courtesy.delay_s": 5.0, "courtesy.agreed_delays": ["y.test=1 Rui Lima"]}
    change(
        web.installation.root,
        "main",
        [Edit(key, Operator.SET, value) for key, value in about_y.items()],
        web.installation.clock,
    )

    def late(root: Root, name: str, edits: Sequence[Edit], clock: Clock) -> SettingsChange:
        change(root, name, [Edit("courtesy.agreed_delays", Operator.SET, [])], clock)
        change(root, name, [Edit("limits.host_budgets", Operator.ADD, "x.test=7")], clock)
        return change(root, name, edits, clock)

    monkeypatch.setattr("teia.web.pages.collection.host.change", late)
    sent = {"deed": "delay", "delay_s": "2", "agreed_by": "Ana Souza"}
    to = "/api/v1/c/main/hosts/x.test"
    assert web.client().post(to, json=sent, headers=web.token(Role.OPERATOR)).status_code == 200
    assert web.installation.config("main").courtesy.agreed_delays == ("x.test=2 Ana Souza",)
    own = {"own_delay_s": ["", "2"], "delay_s": ["5", "2"], "agreed_by": ["", "Ana Souza"]}
    noted = web.installation.accounts.logged_actions(1)[0][1].detail
    assert noted == {"collection": "main", "host": "x.test", **own}, "nothing that somebody else did"


def test_a_delay_of_its_own_that_is_as_long_as_everybodys_is_written_down(web: Web) -> None:
    """It stays when everybody's becomes another."""
    change(web.installation.root, "main", [Edit("courtesy.delay_s", Operator.SET, 5.0)], web.installation.clock)
    for delay_s, noted in (("5", ["", "5"]), ("", ["5", ""])):
        sent = {"deed": "delay", "delay_s": delay_s}
        web.client().post("/api/v1/c/main/hosts/x.test", json=sent, headers=web.token(Role.OPERATOR))
        detail = web.installation.accounts.logged_actions(1)[0][1].detail
        assert detail == {"collection": "main", "host": "x.test", "own_delay_s": noted}


@pytest.mark.parametrize("is_written", [True, False])
def test_a_delay_that_a_stopped_crawl_did_not_hear_of_is_written_down_all_the_same(
    web: Web, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    def unheard(root: Root, name: str, edits: Sequence[Edit], clock: Clock) -> SettingsChange:
        if is_written:
            change(root, name, edits, clock)
        raise StoreError("its crawl did not answer in time")

    monkeypatch.setattr("teia.web.pages.collection.host.change", unheard)
    sent, to = {"deed": "delay", "delay_s": "20"}, "/api/v1/c/main/hosts/x.test"
    assert web.client().post(to, json=sent, headers=web.token(Role.OPERATOR)).status_code == 404
    assert [each.what for _, each in web.installation.accounts.logged_actions(1)] == ["treat host: delay"] * is_written


def test_a_viewer_sees_no_buttons(web: Web) -> None:
    assert "Pause this host" not in web.client(Role.VIEWER).get("/c/main/hosts/x.test").text
    nobody = web.client().post("/api/v1/c/main/hosts/n.test", json={"deed": "pause"}, headers=web.token(Role.OPERATOR))
    assert nobody.status_code == 404


def test_a_host_shows_how_far_what_it_says_of_changes_is_believed(web: Web) -> None:
    """A sitemap that was true, and a feed that lost its voice; the twin has the same numbers."""
    client = web.client(Role.VIEWER)
    assert client.get("/api/v1/c/main/hosts/x.test").json()["about"]["signals"] == []
    honest, lying = SignalSource(future=2, broken=1), SignalSource()
    for _ in range(40):
        honest.note_visit(changed=True, unchanged_probability=0.9)
        honest.note_change(announced=True)
        lying.note_visit(changed=False, unchanged_probability=0.9)
    for folder in web.installation.root.collection("main").cells():
        cell = FrontierCell(folder.frontier)
        for slot, host_id in cell.db.execute("SELECT slot, host_id FROM hosts").fetchall():
            voices = [(SignalKind.SITEMAP, honest.encode()), (SignalKind.FEED, lying.encode())]
            site_statements.store_trust(cell, slot, host_id, voices)
        cell.close()
    sitemap, feed = client.get("/api/v1/c/main/hosts/x.test").json()["about"]["signals"]
    assert (sitemap["kind"], sitemap["heeded"], sitemap["future"], sitemap["broken"]) == ("sitemap", 40, 2, 1)
    assert sitemap["sure_weight"] > 0.8
    assert feed["is_hardly_heard"]
    page = client.get("/c/main/hosts/x.test").text
    assert "Change signals" in page
    assert '<td class="n">off</td>' in page


def test_the_list_the_page_and_the_report_agree_about_a_host(web: Web) -> None:
    client = web.client(Role.VIEWER)
    about = client.get("/api/v1/c/main/hosts/x.test").json()["about"]
    # A crawl that ends takes the delays that are over from the ledger.
    asked_s = from_iso(about["last_asked"])
    with closing(sqlite3.connect(web.installation.root.path / "ledger.sqlite")) as ledger, ledger:
        ledger.execute("INSERT OR REPLACE INTO delays VALUES ('server', 'x.test', ?, 5.0)", (asked_s + 5.0,))
    listed = client.get("/api/v1/c/main/hosts").json()["rows"][0]
    assert listed["host"] == "x.test"
    errors = client.get("/api/v1/c/main/reports/errors").json()
    shares = {each["host"]: each["share"] for each in errors["by_host"]}
    assert listed["error_share"] == pytest.approx(shares.get(listed["host"], 0.0), abs=1e-4)
    assert (listed["urls"], listed["last_asked"][:19]) == (about["urls"], about["last_asked"][:19])
    assert about["visited"] == 4
    assert about["requests_seen"] >= about["requests"]


def test_a_host_without_a_request_has_no_last_request(web: Web) -> None:
    root, url = web.installation.root, "http://never.test/"
    with Lookup(root, "main") as lookup:
        number = lookup.cell_of_host("never.test")
    with closing(FrontierCell(root.collection("main").cells()[number].frontier)) as cell:
        add_links(cell, found(url))
    # The ledger has a delay for it: that of the start of the machine.
    with closing(sqlite3.connect(root.path / "ledger.sqlite")) as ledger, ledger:
        for host in ("never.test", "x.test"):  # the crawl's own row of x.test goes when its delay is over
            ledger.execute("INSERT OR REPLACE INTO delays VALUES ('server', ?, 10.0, 5.0)", (host,))
    table = host_table(root, "main", web.installation.clock.now_s())
    assert table.hosts["never.test"].last_request_s is None
    assert table.hosts["x.test"].last_request_s == 5.0


def test_a_host_of_two_collections_has_the_numbers_of_the_one_that_is_looked_at(web: Web) -> None:
    """The ledger of delays is that of all collections: its last request may be another's."""
    root, client = web.installation.root, web.client(Role.VIEWER)
    before = client.get("/api/v1/c/main/hosts/x.test").json()
    assert before["also_in"] == []
    shutil.copytree(root.path / "main", root.path / "other")
    with closing(sqlite3.connect(root.path / "ledger.sqlite")) as ledger, ledger:
        now_s = web.installation.clock.now_s()
        ledger.execute("INSERT OR REPLACE INTO delays VALUES ('server', 'x.test', ?, 0.05)", (now_s,))
    web.installation.cache.invalidate(("hosts", "main"))
    listed = client.get("/api/v1/c/main/hosts").json()["rows"][0]
    after = client.get("/api/v1/c/main/hosts/x.test").json()
    assert after["also_in"] == ["other"]
    assert after["about"]["last_asked"] == before["about"]["last_asked"]
    assert listed["last_asked"][:19] == before["about"]["last_asked"][:19]
    page = text_of(client.get("/c/main/hosts/x.test").text)
    assert "Also crawled for other." in page
    assert "all other figures are of main" in page
