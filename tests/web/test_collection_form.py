"""Collections made, changed, cloned and removed by form and by API (T1, A8, A10; acceptance 6, 11, 14)."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from typing import Any

import pytest
from fastapi.testclient import TestClient

from teia.collections.calendar import next_starts, parse_schedule
from teia.collections.commands import standing_commands
from teia.collections.drafts import ADMINS, LOCAL, check_draft
from teia.collections.settings import change, saved
from teia.config.load import to_toml
from teia.config.sections import ScheduleSettings
from teia.frontier.cell.cell import FrontierCell
from teia.frontier.cell.schema import BY_SEED, STATE_EXCLUDED, STATE_FAILED
from teia.records import Edit, Operator
from teia.web.access.roles import Role
from teia.web.background.crawler import Supervisor
from teia.web.collection_form import Fields, fields_from_config, settings_from_fields
from teia.web.pages.collection.edit import _saved_message
from tests.frontier.cells import add_links, found, items, settle
from tests.web.conftest import Web

FORM: dict[str, Any] = {
    "name": "diario",
    "seeds": "https://diario.test/\nwww.diario.test/capa",
    "scope": "rules",
    "rule_do": ["keep", "skip", "skip"],
    "rule_kind": ["domain", "regex", "domain"],
    "rule_value": ["diario.test", r"/busca\?", ""],
    "queries": "yes",
    "delay": "5",
    "robots": "yes",
    "index": "yes",
    "public_search": "yes",
    "public_copies": "yes",
    "every_unit": "once",
    "stop_unit": "hours",
    "order": "breadth",
    "step": "save",
}


def send(web: Web, client: TestClient, to: str = "/c/new", **changed: Any) -> Any:
    return client.post(to, data={**FORM, **changed, "csrf": web.csrf(client)})


def faults(text: str) -> dict[str, str]:
    """What is said beside the fields."""
    found = re.findall(r'data-fault="(\w+)">([^<]*)<', text)
    return {field: unescape(message) for field, message in found if message.strip()}


@pytest.mark.heavy
def test_a_collection_is_made_by_form_without_scripts_and_is_what_was_typed(web: Web) -> None:
    client = web.client(Role.OPERATOR)
    assert client.get("/c/new").status_code == 200
    answer = send(web, client, max_pages="1,000", start="2026-11-21T02:00", every_number="7", every_unit="days",
                  stop_number="4", zone="America/Sao_Paulo", body_mib="2.5", types="text/html, application/pdf",
                  rule_lines="keep host:outro.test\nskip query:yes")  # fmt: skip
    assert answer.headers["location"] == "/c/diario", answer.text
    config = saved(web.installation.root, "diario").config
    assert config.collection.seeds == ("https://diario.test/", "www.diario.test/capa")
    assert config.scope.include == ("domain:diario.test", "host:outro.test")
    assert config.scope.exclude == (r"regex:/busca\?", "query:yes")
    assert (config.limits.pages, config.limits.body_bytes) == (1000, int(2.5 * 2**20))
    assert (config.schedule.start, config.schedule.every, config.schedule.stop_after) == (
        "2026-11-21 02:00",
        "7 days",
        "4 hours",
    )
    assert config.scope.types == ("text/html", "application/pdf")
    assert web.installation.accounts.logged_actions(1)[0][1].what == "make collection"
    assert "diario" in client.get("/c").text
    assert client.get("/c/diario").status_code == 200


def test_an_archive_is_chosen_in_the_form_which_says_what_it_fetches(web: Web) -> None:
    client = web.client(Role.OPERATOR)
    page = client.get("/c/new").text
    assert "Archive: also the images and styles of pages, so that captures look like the pages" in page
    assert re.search(r'value="search" checked', page)
    assert send(web, client, kind="archive").status_code == 303
    config = saved(web.installation.root, "diario").config
    assert (config.collection.kind, config.archive.requisites, config.wants_requisites) == ("archive", False, True)
    assert re.search(r'value="archive" checked', client.get("/c/diario/edit").text)
    assert send(web, client, name="outro", kind="").status_code == 303
    assert not saved(web.installation.root, "outro").config.wants_requisites


def test_a_form_reads_back_what_it_saved(web: Web) -> None:
    """Whatever a collection is configured to, its form stands for the same."""
    client = web.client(Role.OPERATOR)
    send(web, client, more="[sites]\ntraps = true", start="2026-11-21 02:00", every_number="2", every_unit="months")
    config = saved(web.installation.root, "diario").config
    assert config.sites.traps
    values, wrong = settings_from_fields(fields_from_config(config), config)
    assert not wrong
    main = web.installation.config("main")
    for each in (config, main):
        values, _ = settings_from_fields(fields_from_config(each), each)
        shown = web.client().post(f"/api/v1/c/{each.collection.name}/edit", headers=web.token(Role.ADMIN),
                                  json={"settings": {}, "dry_run": True}).json()  # fmt: skip
        assert shown["changes"] == []
        for key, value in values.items():
            section, name = key.split(".")
            there = getattr(getattr(each, section), name)
            assert (list(there) if isinstance(there, tuple) else there) == value, key


WRONG = [
    ("name", "Diário", "cannot be the name of a collection: use only a-z"),
    ("name", "new", "cannot be the name of a collection"),
    ("name", "lock", "cannot be the name of a collection"),
    ("name", "", "cannot be the name of a collection"),
    ("name", "main", "a collection named main already exists"),
    ("seeds", "ftp://x\nhttps://ok.test/", "'ftp://x' is not an http or https URL"),
    ("seeds", "  ", "at least one seed"),
    ("max_pages", "many", "must be a whole number"),
    ("max_pages", "-1", "must be at least 0"),
    ("max_seconds", "soon", "must be a number"),
    ("max_depth", "1.5", "must be a whole number"),
    ("body_mib", "big", "must be a whole number"),
    ("body_mib", "0", "must be at least 1024"),
    ("fetch_s", "0.1", "must be at least 1"),
    ("pages_per_host", "0", "must be at least 1"),
    ("pages_per_site", "x", "must be a whole number"),
    ("delay_s", "-2", "must be at least 0"),
    ("delay_s", "soon", "must be a number"),
    ("start", "tomorrow", "must be a date and time"),
    ("zone", "America/Sao_Paolo", "did you mean 'America/Sao_Paulo'"),
    ("every", "many", "must be"),
    ("stop", "-3", "must be"),
    ("until", "2020-01-01", "is before schedule.start"),
    ("order", "best", "must be one of"),
    ("more", "[nonsense", "not valid TOML"),
    ("more", "[nothing]\nx = 1", "unknown setting"),
    ("more", "[courtesy]\ndelay_s = 0", "has its own field"),
    ("more", '[parse]\nprocessors = ["a=b:c"]', "refers to files or code"),
    ("more", '[fetch]\nallow_nets = ["all"]', "write networks such as"),
    ("scope", "sites", "include rules need Scope = custom rules"),
]
BESIDE: dict[str, dict[str, str]] = {
    "delay_s": {"delay": "other"},
    "every": {"every_unit": "days", "start": "2026-11-21"},
    "stop": {"start": "2026-11-21"},
    "until": {"start": "2026-11-21"},
    "zone": {"start": "2026-11-21"},
}


def test_nonsense_is_reported_beside_its_field_and_nothing_typed_is_lost(web: Web) -> None:
    client = web.client(Role.ADMIN)
    for field, typed, message in WRONG:
        name = {"every": "every_number", "stop": "stop_number"}.get(field, field)
        sent = {"seeds": "https://diario.test/x", "consent": "ana", **BESIDE.get(field, {}), name: typed}
        answer = send(web, client, **sent)
        assert answer.status_code == 400, (field, typed)
        said = faults(answer.text)
        assert message in said.get(field, ""), (field, typed, said)
        place = {"scope": "scope-sites"}.get(name, name)
        assert f'href="#{place}"' in answer.text, "the list on top leads to the field"
        assert re.search(rf'id="{place}"', answer.text)
        text = unescape(answer.text)
        assert typed in text or field == "order"
        assert {r"/busca\?", "diario.test", "ana"} <= set(re.findall(r'value="([^"]*)"', text))
        assert web.installation.names() == ["main"]


def test_all_wrong_fields_are_marked_at_the_first_submit(web: Web) -> None:
    """Also those that are judged with others: the dates, the name in use, the approval, several texts of `more`."""
    wrong = {
        "name": "main", "seeds": "debian", "rule_value": ["diario.test", "(", ""], "max_pages": "many",
        "start": "2026-11-21", "zone": "Mars/Base", "delay": "other", "delay_s": "0.5",
        "more": '[fetch]\nallow_nets = ["10.0.0.0/40"]\nresolve = ["x"]',
    }  # fmt: skip
    answer = send(web, web.client(Role.ADMIN), **wrong)
    assert answer.status_code == 400
    assert faults(answer.text).keys() == {"name", "seeds", "rules", "max_pages", "zone", "consent", "more"}
    assert 'data-rule-fault="2"' in answer.text
    assert {"fetch.allow_nets", "fetch.resolve"} <= set(re.findall(r"fetch\.\w+(?=:)", unescape(answer.text)))


WRONG_RULES = [
    ("regex", "(", "missing )"),
    ("regex", "(?!a)b", "uses look-ahead or look-behind; use two rules"),
    ("regex", r"(a)\1", "uses a back-reference"),
    ("host", "two words", "must be a host name"),
    ("prefix", "ftp://x", "must be an http or https URL"),
    ("query", "maybe", "must be query:no or query:yes"),
    ("rule", "and(host:a.test", "must be KIND:VALUE"),
    ("rule", "py:os.remove", "refers to a file or code on the server"),
    ("rule", "not(py:os.remove)", "refers to a file or code on the server"),
    ("rule", "list:/etc/passwd", "refers to a file or code on the server"),
    ("rule", "@/etc/passwd", "refers to a file or code on the server"),
]


def test_a_wrong_rule_is_named_in_its_row(web: Web) -> None:
    client = web.client(Role.OPERATOR)
    rows = {"rule_do": ["keep", *["skip"] * len(WRONG_RULES)]}
    rows["rule_kind"] = ["domain", *(kind for kind, _, _ in WRONG_RULES)]
    rows["rule_value"] = ["diario.test", *(value for _, value, _ in WRONG_RULES)]
    answer = send(web, client, **rows)
    assert answer.status_code == 400
    found = dict(re.findall(r'data-rule-fault="(\d+)">([^<]*)<', answer.text))
    for row, (_, value, message) in enumerate(WRONG_RULES, 2):
        assert message in unescape(found[str(row)]), value
        assert f'href="#rule-{row}"' in answer.text


def test_what_is_less_polite_needs_an_admin_and_somebodys_consent(web: Web) -> None:
    operator, admin = web.client(Role.OPERATOR), web.client(Role.ADMIN)
    for how in ({"delay": "other", "delay_s": "0.5"}, {"robots": ""}, {"more": "[courtesy]\nper_host = 4"}):
        assert "an admin must approve" in faults(send(web, operator, **how, consent="ana").text)["consent"]
        assert "who approved" in faults(send(web, admin, **how).text)["consent"]
    answer = send(web, admin, delay="other", delay_s="0.5", consent="the owner, ana@diario.test")
    assert answer.status_code == 303
    assert saved(web.installation.root, "diario").config.courtesy.delay_s == 0.5
    (line,) = [line for _, line in web.installation.accounts.logged_actions(5) if line.what == "make collection"]
    assert line.detail["consent"] == "the owner, ana@diario.test"
    network = {"name": "x", "settings": {"collection": {"seeds": ["a.test"]}, "fetch": {"allow_nets": ["10.0.0.0/8"]}}}
    refused = web.client().post("/api/v1/c", json=network, headers=web.token(Role.OPERATOR))
    assert refused.status_code == 403
    assert "fetch.allow_nets" in refused.json()["message"]


def test_the_effect_is_shown_before_it_is_saved_and_only_what_was_shown_is(web: Web) -> None:
    client = web.client(Role.OPERATOR)
    fields = fields_from_config(web.installation.config("main")).model_dump()
    fields |= {"rule_do": ["skip"], "rule_kind": ["regex"], "rule_value": ["/lei$"], "csrf": web.csrf(client)}
    before = web.installation.config("main")
    for step in ("check", "save"):  # a save of what nobody has seen is a look at it
        shown = client.post("/c/main/edit", data={**fields, "step": step})
        assert shown.status_code == 200
        text = unescape(shown.text)
        assert "0 of 4 known URLs leave the queue, 0 enter; 1 pages stay in the archive" in text
        assert re.search(r"http://x\.test:\d+/lei", shown.text.replace("<wbr>", ""))
        assert web.installation.config("main") == before
    (seen,) = re.findall(r'name="shown" value="(\w+)"', shown.text)
    other = client.post("/c/main/edit", data={**fields, "rule_value": ["/x"], "step": "save", "shown": seen})
    assert other.status_code == 200
    assert web.installation.config("main") == before, "another change than the one that was shown"
    saved_now = client.post("/c/main/edit", data={**fields, "step": "save", "shown": seen})
    assert saved_now.headers["location"] == "/c/main"
    assert web.installation.config("main").scope.exclude == ("regex:/lei$",)
    line = web.installation.accounts.logged_actions(1)[0][1]
    assert (line.what, line.detail["scope.exclude"]) == ("change settings", ["[]", '["regex:/lei$"]'])


def test_the_api_makes_tells_and_changes(web: Web) -> None:
    operator = web.token(Role.OPERATOR)
    api = web.client()
    made = api.post("/api/v1/c", headers=operator,
                    json={"name": "um", "settings": {"collection": {"seeds": ["um.test"]}}})  # fmt: skip
    assert made.json() == {"message": "um was created", "to": "/c/um"}
    again = api.post("/api/v1/c", headers=operator, json={"name": "um", "settings": {"collection": {"seeds": ["a.b"]}}})
    assert again.status_code == 400
    assert "already" in again.json()["message"]
    wrong = api.post("/api/v1/c/um/edit", headers=operator, json={"settings": {"courtesy": {"delay_s": "x"}}}).json()
    assert (wrong["error"], wrong["field"]) == ("wrong_setting", "courtesy.delay_s")
    dry = api.post("/api/v1/c/um/edit", headers=operator,
                   json={"settings": {"courtesy": {"delay_s": 9}}, "dry_run": True}).json()  # fmt: skip
    assert (dry["is_done"], dry["changes"]) == (
        False,
        [{"key": "courtesy.delay_s", "before": "5.0", "after": "9.0"}],
    )
    assert web.installation.config("um").courtesy.delay_s == 5
    done = api.post("/api/v1/c/um/edit", headers=operator, json={"settings": {"courtesy": {"delay_s": 9}}}).json()
    assert done["is_done"]
    assert web.installation.config("um").courtesy.delay_s == 9
    started = api.post("/api/v1/c/um/command", headers=operator, json={"command": "start"})
    assert started.status_code == 400
    assert "starts no crawler" in started.json()["message"]
    assert standing_commands(web.installation.root, "um").wanted_s is None


def test_a_clone_is_the_same_under_another_name(web: Web) -> None:
    client = web.client(Role.ADMIN)
    page = client.get("/c/main/clone")
    assert 'value="main-2"' in page.text
    assert 'action="/c/new"' in page.text
    twin = client.get("/api/v1/c/main/clone").json()
    assert twin["fields"]["name"] == "main-2"
    twin["fields"] |= {"consent": "ours", "step": "save", "csrf": web.csrf(client)}
    assert client.post("/c/new", data=twin["fields"]).headers["location"] == "/c/main-2"
    one, other = web.installation.config("main"), web.installation.config("main-2")
    assert (one.scope, one.courtesy, one.fetch) == (other.scope, other.courtesy, other.fetch)


def test_only_an_admin_removes_and_types_the_name(web: Web) -> None:
    operator, admin = web.client(Role.OPERATOR), web.client(Role.ADMIN)
    assert "Remove collection" not in operator.get("/c/main/edit").text
    assert "Remove collection" in admin.get("/c/main/edit").text
    refused = operator.post("/c/main/remove", data={"name": "main", "csrf": web.csrf(operator)})
    assert refused.status_code == 403
    wrong = admin.post("/c/main/remove", data={"name": "mein", "csrf": web.csrf(admin)})
    assert wrong.status_code == 400
    assert web.installation.names() == ["main"]
    assert admin.post("/c/main/remove", data={"name": "main", "csrf": web.csrf(admin)}).headers["location"] == "/c"
    assert web.installation.names() == []
    assert "No collection yet" in admin.get("/c").text
    assert not [path.name for path in web.installation.root.path.iterdir() if "main" in path.name]


def test_a_url_is_tried_by_form_and_by_api_alike(web: Web) -> None:
    client, url = web.client(Role.OPERATOR), web.some_url()
    by_api = client.post("/api/v1/c/main/scope/test", json={"urls": [url, "ftp://x", "http://other/"]},
                         headers={"x-csrf-token": web.csrf(client)}).json()  # fmt: skip
    assert [each["is_crawled"] for each in by_api["tried"]] == [True, False, False]
    assert (by_api["tried"][0]["rule"], by_api["tried"][0]["state"]) == (1, "done")
    fields = fields_from_config(web.installation.config("main")).model_dump()
    sent = {**fields, "tries": f"{url}\nftp://x\nhttp://other/", "step": "test", "csrf": web.csrf(client)}
    page = client.post("/c/main/edit", data=sent).text
    assert re.findall(r"<strong>(Yes|No)</strong>", page) == ["Yes", "No", "No"]
    assert "included by rule 1: suffix:.test" in unescape(page).replace("<wbr>", "")
    many = client.post("/api/v1/scope/test", json={"urls": ["a"] * 201, "settings": {}},
                       headers={"x-csrf-token": web.csrf(client)})  # fmt: skip
    assert many.status_code == 400


@pytest.mark.timeout(60)
def test_an_expression_that_tries_every_way_holds_nobody_up(web: Web) -> None:
    """Python's engine took more than 30 seconds for the first of these, and no page was answered meanwhile."""
    client = web.client(Role.OPERATOR)
    for expression in (r"(?:ABCDEFGHIJKLMNOPQRSTUVWXY)?(Z|Z)+#", r"(a+)+$", r"(Z*)*(Z*)*#"):
        asked = {"urls": [f"http://x.test/{'Z' * 200}", f"http://x.test/{'a' * 200}!"]}
        asked["settings"] = {"collection": {"seeds": ["http://x.test/"]}, "scope": {"exclude": [f"regex:{expression}"]}}
        answer = client.post("/api/v1/scope/test", json=asked, headers={"x-csrf-token": web.csrf(client)})
        assert answer.status_code == 200, answer.text
        assert [each["is_crawled"] for each in answer.json()["tried"]] == [True, True]


def test_expressions_that_are_too_large_together_are_refused(web: Web) -> None:
    client = web.client(Role.OPERATOR)
    rules = [f"regex:[ab]{{0,990}}{number}" for number in range(20)]
    asked = {"urls": ["http://x.test/"], "settings": {"collection": {"seeds": ["http://x.test/"]}}}
    for some, status in ((rules[:3], 200), (rules, 400)):
        asked["settings"]["scope"] = {"exclude": some}  # type: ignore[index]
        answer = client.post("/api/v1/scope/test", json=asked, headers={"x-csrf-token": web.csrf(client)})
        assert answer.status_code == status, answer.text
    assert "too large together" in answer.text


def test_urls_that_there_was_no_time_for_are_named(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teia.web.limits.TRY_S", -1.0)
    client = web.client(Role.OPERATOR)
    answer = client.post("/api/v1/c/main/scope/test", json={"urls": [web.some_url()]},
                         headers={"x-csrf-token": web.csrf(client)}).json()  # fmt: skip
    assert [(each["is_crawled"], each["why"][:10]) for each in answer["tried"]] == [(False, "not tested")]


def test_a_rule_of_an_older_version_that_looks_ahead_is_shown_and_can_be_changed(web: Web) -> None:
    client, rule = web.client(Role.OPERATOR), "regex:^http://x\\.test/(?!admin)"
    path = web.installation.root.collection("main").path / "teia.toml"
    path.write_text(
        to_toml(replace(was := web.installation.config("main"), scope=replace(was.scope, exclude=(rule,)))), "utf-8"
    )
    assert web.installation.config("main").scope.exclude == (rule,)
    for page in ("/c", "/c/main", "/c/main/edit", f"/c/main/page?url={web.some_url()}"):
        assert client.get(page).status_code == 200, page
    headers = {"x-csrf-token": web.csrf(client)}
    tried = client.post("/api/v1/c/main/scope/test", json={"urls": [web.some_url()]}, headers=headers)
    assert tried.status_code == 400
    assert "uses look-ahead or look-behind; use two rules" in tried.text
    changed = client.post(
        "/api/v1/c/main/edit", json={"settings": {"scope": {"exclude": ["regex:/admin"]}}}, headers=headers
    )
    assert changed.status_code == 200, changed.text
    assert web.installation.config("main").scope.exclude == ("regex:/admin",)


@pytest.mark.parametrize("rule", [r"regex:^https?://x\.test/(?!private)", r"and(py:of.ours:keep, regex:(?!private))"])
def test_a_rule_beside_one_of_an_older_version_that_looks_ahead_is_no_error_of_ours(web: Web, rule: str) -> None:
    client, was = web.client(Role.OPERATOR), web.installation.config("main")
    scope = replace(was.scope, include=("host:a.test", rule))
    (web.installation.root.collection("main").path / "teia.toml").write_text(
        to_toml(replace(was, scope=scope)), "utf-8"
    )
    headers = {"x-csrf-token": web.csrf(client)}
    settings = {"scope": {"include": ["host:a.test", rule, "host:b.test"]}}
    for path, asked in (("edit", {}), ("scope/test", {"urls": [web.some_url()]})):
        answer = client.post(f"/api/v1/c/main/{path}", json={"settings": settings, **asked}, headers=headers)
        assert answer.status_code == 400, answer.text
        assert "uses look-ahead or look-behind; use two rules" in answer.text
    fields = fields_from_config(web.installation.config("main")).model_dump()
    fields |= {"rule_lines": f"keep {rule}\nkeep host:b.test", "rule_do": [], "rule_kind": [], "rule_value": []}
    shown = client.post("/api/v1/draft?c=main", data={**fields, "step": "look"}, headers=headers)
    assert [each["message"] for each in shown.json()["problems"] if "uses look-ahead" in each["message"]], shown.text
    saved_by_form = client.post("/c/main/edit", data={**fields, "step": "save", "csrf": web.csrf(client)})
    assert saved_by_form.status_code == 400
    assert "uses look-ahead or look-behind" in saved_by_form.text
    faults_found = check_draft({"scope.include": settings["scope"]["include"]}, web.installation.config("main")).faults
    assert [(fault.key, fault.index) for fault in faults_found] == [("scope.include", 1)]


@pytest.mark.parametrize("zone", ["America/Sao_Paulo", "Europe/Lisbon", "UTC"])
def test_the_dates_shown_are_those_on_which_runs_begin_also_when_clocks_change(web: Web, zone: str) -> None:
    """Acceptance 14: Lisbon goes back an hour between the third and the fourth."""
    settings = ScheduleSettings(start="2027-10-10 01:30", zone=zone, every="7 days", stop_after="4 hours")
    given = {"start": settings.start, "zone": zone, "every": "7 days", "stop_after": "4 hours"}
    shown = web.client(Role.VIEWER).get("/api/v1/schedule/preview", params=given).json()
    schedule = parse_schedule(settings)
    assert schedule is not None
    due = next_starts(schedule, web.installation.clock.now_s(), 5)
    assert [datetime.fromisoformat(each).timestamp() for each in shown["starts"]] == due
    assert len(due) == 5
    hours = {datetime.fromtimestamp(at, UTC).hour for at in due}
    assert len(hours) == (2 if zone == "Europe/Lisbon" else 1)
    assert shown["words"].startswith("Every 7 days at 01:30")
    client = web.client(Role.OPERATOR)
    sent = {"start": given["start"], "zone": zone, "every_number": "7", "every_unit": "days", "stop_number": "4"}
    page = send(web, client, **sent, step="test").text
    assert all(each.partition(" (")[0] in page for each in shown["shown"])
    wrong = web.client(Role.VIEWER).get("/api/v1/schedule/preview", params={"start": "soon"})
    assert wrong.status_code == 400


def test_a_run_that_cannot_reach_all_pages_is_reported(web: Web) -> None:
    given = {"start": "2027-01-01", "every": "1 day", "stop_after": "1 second", "zone": "UTC", "c": "main"}
    shown = web.client(Role.VIEWER).get("/api/v1/schedule/preview", params=given).json()
    assert shown["warning"] == "" or "runs will stop before they are complete" in shown["warning"]
    web.client().post("/api/v1/c/main/edit", headers=web.token(Role.ADMIN),
                      json={"settings": {"courtesy": {"delay_s": 60}}})  # fmt: skip
    warning = web.client(Role.VIEWER).get("/api/v1/schedule/preview", params=given).json()["warning"]
    assert re.fullmatch(
        r"4 known pages of x\.test at one every 60 s take 0 h 4 min: runs will stop before they are complete", warning
    )


def test_a_draft_is_judged_while_it_is_typed(web: Web) -> None:
    client = web.client(Role.OPERATOR)
    fields = {
        **fields_from_config(web.installation.config("main")).model_dump(),
        "rule_do": ["skip"],
        "rule_kind": ["regex"],
    }
    fields |= {"rule_value": ["/lei$"], "max_depth": "x", "step": "look"}
    wrong = client.post("/api/v1/draft?c=main", data=fields, headers={"x-csrf-token": web.csrf(client)}).json()
    assert [each["field"] for each in wrong["problems"]] == ["max_depth"]
    view = client.post("/api/v1/draft?c=main", data={**fields, "max_depth": "3"},
                       headers={"x-csrf-token": web.csrf(client)}).json()  # fmt: skip
    assert (view["known"], view["rules"][0]["matches"], view["rules"][0]["number"]) == (4, 1, 2)
    assert web.installation.config("main").scope.exclude == ()


@pytest.mark.heavy
def test_a_closed_collection_does_not_exist_for_those_who_did_not_sign_in(web: Web) -> None:
    url, admin = web.some_url(), web.token(Role.ADMIN)
    page = {"params": {"url": url}}

    def set_public(**values: bool) -> None:
        done = web.client().post("/api/v1/c/main/edit", headers=admin, json={"settings": {"public": values}})
        assert done.json()["is_done"], done.text

    assert web.client().get("/c/main/copy", **page).status_code == 200
    set_public(copies=False)
    assert web.client().get("/c/main/copy", **page).status_code == 403
    assert web.client().get("/c/main/page", **page).status_code == 200
    assert web.client(Role.VIEWER).get("/c/main/copy", **page).status_code == 200
    set_public(search=False)
    assert web.client().get("/c/main/page", **page).status_code == 404
    assert web.client().get("/api/v1/search?q=imposto").json().get("total", 0) == 0
    assert web.client().get("/api/v1/search?q=imposto&c=main").status_code == 404
    assert web.client().get("/").status_code == 200
    assert web.client(Role.VIEWER).get("/api/v1/search?q=imposto").json()["total"] == 1


def test_a_form_that_is_empty_says_what_is_needed(web: Web) -> None:
    client = web.client(Role.OPERATOR)
    answer = client.post("/c/new", data={"csrf": web.csrf(client), "step": "save"})
    assert answer.status_code == 400
    assert {"name", "seeds"} <= faults(answer.text).keys()
    assert Fields().scope == "sites"


OF_THE_MACHINE = {
    "signals.proxy": "127.0.0.1:3128",
    "signals.caches": ["rio=127.0.0.1:3128"],
    "signals.socket": "/etc/teia.sock",
    "signals.websub": "https://teia.example/",
    "cluster.snapshots": "/etc",
    "fetch.bind": "127.0.0.1",
    "fetch.allow_nets": ["127.0.0.0/8"],
    "fetch.resolve": ["*=127.0.0.1"],
    "fetch.dns": "127.0.0.1",
    "fetch.keep_alive": 7,
    "fetch.at_once": 7,
    "courtesy.cdn_nets": ["10.0.0.0/8"],
    "balance.landmarks": ["10.0.0.1:4222"],
    "alerts.smtp": "10.0.0.1:25",
}


def test_paths_and_networks_of_the_machine_need_an_admin(web: Web) -> None:
    assert set(OF_THE_MACHINE) == ADMINS
    operator, admin = web.client(Role.OPERATOR), web.client(Role.ADMIN)
    for number, (key, value) in enumerate(OF_THE_MACHINE.items()):
        section, _, name = key.partition(".")
        settings = {section: {name: value}}
        new = {"collection": {"seeds": ["http://n.test/"]}, **settings}
        asked: dict[str, Any] = {"/api/v1/c/main/edit": {"settings": settings}}
        asked["/api/v1/c"] = {"name": f"n{number}", "settings": new}
        for path, sent in asked.items():
            refused = operator.post(path, json=sent, headers={"x-csrf-token": web.csrf(operator)})
            assert refused.status_code == 403, (key, refused.text)
            assert f"this requires the role admin: addresses outside the public web are allowed ({key})" in refused.text
        allowed = admin.post(
            "/api/v1/c/main/edit", json={"settings": settings}, headers={"x-csrf-token": web.csrf(admin)}
        )
        assert allowed.status_code == 200, (key, allowed.text)
    assert web.installation.names() == ["main"]
    token = web.token(Role.OPERATOR)
    by_program = {"settings": {"signals": {"proxy": "127.0.0.1:9"}}}
    assert web.client().post("/api/v1/c/main/edit", json=by_program, headers=token).status_code == 403


def test_files_and_code_of_the_machine_are_not_set_from_far_away(web: Web) -> None:
    admin = web.client(Role.ADMIN)
    for key in LOCAL:
        section, _, name = key.partition(".")
        value: Any = "/etc/passwd" if name == "weights_file" else ["/etc/passwd"]
        asked = {"settings": {section: {name: value}}}
        refused = admin.post("/api/v1/c/main/edit", json=asked, headers={"x-csrf-token": web.csrf(admin)})
        assert refused.status_code == 400, key
        assert "refers to files or code on the server" in refused.text


def test_a_contact_of_two_lines_is_refused_when_it_is_written(web: Web) -> None:
    admin = web.client(Role.ADMIN)
    asked = {"settings": {"courtesy": {"contact": "me@x.test\r\nX-Evil: 1"}}}
    refused = admin.post("/api/v1/c/main/edit", json=asked, headers={"x-csrf-token": web.csrf(admin)})
    assert refused.status_code == 400
    assert "plain ASCII on one line" in refused.text


def test_a_removal_with_another_name_stays_on_the_form(web: Web) -> None:
    admin = web.client(Role.ADMIN)
    answer = admin.post("/c/main/remove", data={"csrf": web.csrf(admin), "name": "mian"})
    assert answer.status_code == 400
    assert 'value="mian"' in answer.text
    assert 'id="remove-name-fault" role="alert">type the name main to remove it; nothing was removed<' in answer.text
    assert web.installation.names() == ["main"]


def test_urls_are_tested_while_other_fields_are_wrong(web: Web) -> None:
    client = web.client(Role.OPERATOR)
    answer = send(web, client, step="test", max_pages="many", start="tomorrow", tries="https://diario.test/a")
    assert "max_pages" in faults(answer.text)
    assert "<strong>Yes</strong>" in answer.text


def test_saving_says_when_the_settings_are_used(web: Web) -> None:
    client = web.client(Role.OPERATOR)
    to = "/api/v1/c/main/edit"
    done = client.post(to, headers=web.token(Role.OPERATOR), json={"settings": {"limits": {"pages": 7}}})
    assert done.json()["message"] == "Saved; the next crawl uses it."
    assert str(_saved_message(["limits.pages"], [], True)) == "Saved; the running crawl uses it now."
    assert "next start: collection.order" in _saved_message(["limits.pages"], ["collection.order"], True)


@pytest.mark.parametrize(
    ("typed", "type_", "value"),
    [
        ("", "datetime-local", ""),
        ("2026-11-21 02:00", "datetime-local", "2026-11-21T02:00"),
        ("2026-11-21", "text", "2026-11-21"),
        ("tomorrow", "text", "tomorrow"),
    ],
)
def test_a_date_has_a_picker_unless_it_would_change_what_is_saved(web: Web, typed: str, type_: str, value: str) -> None:
    page = send(web, web.client(Role.OPERATOR), step="test", start=typed).text
    assert f'<input id="start" name="start" type="{type_}" value="{value}"' in page
    assert '<option value="America/Sao_Paulo">' in page


def test_a_corrected_seed_starts_the_crawl_again(web: Web) -> None:
    """A mistyped host is repaired in one step: correct, save, it goes on."""
    root, wrong = web.installation.root, "http://exmaple.test/"
    change(root, "main", [Edit("collection.seeds", Operator.ADD, wrong)], web.installation.clock)
    with closing(FrontierCell(root.collection("main").cells()[0].frontier)) as cell:
        add_links(cell, found(wrong))
        (item,) = items(cell, host="exmaple.test")
        settle(cell, item, STATE_FAILED, "dns")
    web.installation.supervisor = Supervisor(root, web.installation.clock)
    client = web.client(Role.OPERATOR)
    assert "No such host: exmaple.test" in re.sub(r"<[^>]+>", "", client.get("/c/main").text)
    headers = web.token(Role.OPERATOR)
    seeds = [seed for seed in saved(root, "main").config.collection.seeds if seed != wrong]
    edits = {"settings": {"collection": {"seeds": [*seeds, "http://x.test/lei"]}}}
    done = client.post("/api/v1/c/main/edit", headers=headers, json=edits)
    assert done.json()["message"] == "Saved; the crawl starts with it now."
    assert standing_commands(root, "main").wanted_s is not None
    again = client.post("/api/v1/c/main/edit", headers=headers, json={"settings": {"limits": {"pages": 9}}})
    assert again.json()["message"] == "Saved; the next crawl uses it.", "only where a seed had failed"


def test_an_allowed_network_starts_a_crawl_whose_seed_was_blocked(web: Web) -> None:
    root, seed = web.installation.root, "http://127.0.0.1:8801/"
    change(root, "main", [Edit("collection.seeds", Operator.ADD, seed)], web.installation.clock)
    with closing(FrontierCell(root.collection("main").cells()[0].frontier)) as cell:
        add_links(cell, replace(found(seed, 0), by=BY_SEED))
        (item,) = items(cell, host="127.0.0.1")
        settle(cell, item, STATE_EXCLUDED, "blocked_address")
    web.installation.supervisor = Supervisor(root, web.installation.clock)
    client, headers = web.client(Role.ADMIN), web.token(Role.ADMIN)
    assert "An admin can allow a network" in client.get("/c/main").text
    edits = {"settings": {"fetch": {"allow_nets": ["127.0.0.0/8"]}}, "consent": "our own pages"}
    done = client.post("/api/v1/c/main/edit", headers=headers, json=edits)
    assert done.json()["message"] == "Saved; the crawl starts with it now."
    assert "An admin can allow a network" not in client.get("/c/main").text
