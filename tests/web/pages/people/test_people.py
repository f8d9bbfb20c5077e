"""People, tokens, the log of changes; one's own password."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from teia.clock import Clock, WallClock
from teia.collections.settings import SettingsChange, change
from teia.config.load import toml_value
from teia.errors import StoreError, UsageError
from teia.records import Edit, Operator
from teia.sqlite import copy_before
from teia.store.root import Root
from teia.web.access.accounts import LIST_CHARS, VALUE_CHARS, Accounts, ChangeLine
from teia.web.access.roles import Role, TokenScope
from teia.web.server.headline import Headline
from tests.web.conftest import PASSWORD, QUICK, Web


def test_an_invitation_makes_an_account_of_its_role(web: Web) -> None:
    admin = web.client(Role.ADMIN)
    shown = admin.post("/settings/users/invite", data={"role": "operator", "csrf": web.csrf(admin)}).text
    (code,) = re.findall(r"/login#([\w-]+)", shown)
    made = web.client().post("/login/first", data={"code": code, "name": "rui", "password": PASSWORD})
    assert made.status_code == 303
    assert ("rui", "operator") in [(user.name, user.role) for user in web.installation.accounts.users()]
    assert "rui" in admin.get("/settings/users").text


def test_a_token_is_shown_once_and_is_good_until_it_is_removed(web: Web) -> None:
    admin = web.client(Role.ADMIN)
    wanted = {"name": "cron", "role": "viewer", "scopes": ["search", "read"], "csrf": web.csrf(admin)}
    shown = admin.post("/settings/tokens/make", data=wanted).text
    (token,) = set(re.findall(r"teia_[\w-]{20,}", shown))
    assert token not in admin.get("/settings/tokens").text
    headers = {"authorization": f"Bearer {token}"}
    assert web.client().get("/api/v1/c", headers=headers).status_code == 200
    assert web.client().get("/api/v1/settings/tokens", headers=headers).status_code == 403, "it is a viewer's"
    owner = web.installation.accounts.tokens()[0].user
    admin.post("/settings/tokens/remove", data={"name": "cron", "user": owner, "csrf": web.csrf(admin)})
    assert web.client().get("/api/v1/c", headers=headers).status_code == 401


def test_a_token_is_good_for_its_scopes_alone(web: Web) -> None:
    """UX 2.13: scopes; what a token is not for is refused with what it is for."""
    admin = web.client(Role.ADMIN)
    sent = {"name": "busca", "role": "viewer", "scopes": ["search"], "csrf": web.csrf(admin)}
    shown = admin.post("/settings/tokens/make", data=sent)
    assert '<span translate="no">search</span>' in shown.text
    headers = {"authorization": f"Bearer {re.findall(r'teia_[A-Za-z0-9_-]{20,}', shown.text)[0]}"}
    ask = web.client().get
    assert ask("/api/v1/search?q=imposto", headers=headers).json()["hits"]
    refused = ask("/api/v1/c", headers=headers)
    assert (refused.status_code, refused.json()["message"]) == (
        403,
        "this requires the scope read; the token has search",
    )
    assert (
        ask("/metrics", headers=headers).status_code
        == ask("/events?topics=status&c=main", headers=headers).status_code
        == 403
    )
    assert ask("/api/v1/api", headers=headers).json()["others"] > 0, "what it may not is not shown to it"
    assert [key["scopes"] for key in admin.get("/api/v1/settings/tokens").json()["tokens"]] == [["search"]]


def test_a_token_is_for_something_and_gives_no_more_than_it_has(web: Web) -> None:
    admin = web.client(Role.ADMIN)
    nothing = admin.post("/settings/tokens/make", data={"name": "x", "role": "viewer", "csrf": web.csrf(admin)})
    assert nothing.status_code == 400
    assert "choose at least one scope for the token" in nothing.text
    own = web.installation.accounts.make_token("own", "ana", Role.ADMIN, frozenset({TokenScope.SETTINGS}))
    headers = {"authorization": f"Bearer {own}"}
    more = web.client().post("/api/v1/settings/tokens/make", json={"name": "y", "scopes": ["crawl"]}, headers=headers)
    assert (more.status_code, more.json()["field"]) == (400, "scopes")
    same = web.client().post(
        "/api/v1/settings/tokens/make", json={"name": "y", "scopes": ["settings"]}, headers=headers
    )
    assert same.status_code == 200
    wrong = {"name": "z", "scopes": ["everything"]}
    assert web.client().post("/api/v1/settings/tokens/make", json=wrong, headers=headers).status_code == 400


def test_a_token_of_some_scopes_makes_nobody_who_has_all_of_them(web: Web) -> None:
    """Whoever an invitation is for has all scopes; a program could accept it itself, and sign in."""
    web.client(Role.ADMIN)
    viewer = web.client(Role.VIEWER)
    name = web.installation.accounts.find_session(viewer.cookies["teia_session"]).user  # type: ignore[union-attr]
    own = web.installation.accounts.make_token("own", "ana", Role.ADMIN, frozenset(TokenScope) - {TokenScope.LAB})

    def sent(to: str, headers: dict[str, str], **what: str) -> tuple[int, str]:
        answer = web.client().post(f"/api/v1/settings/users/{to}", json=what, headers=headers)
        return answer.status_code, answer.json().get("message", "")

    some, every = {"authorization": f"Bearer {own}"}, web.token(Role.ADMIN)
    refused = (403, "a token cannot grant scopes that it does not have: lab")
    assert sent("invite", some, role="viewer") == refused
    assert sent("role", some, name=name, role="operator") == refused
    assert sent("role", some, name=name, role="viewer")[0] == 200, "no more than before"
    assert sent("invite", every, role="viewer")[0] == sent("role", every, name=name, role="operator")[0] == 200
    assert sent("role", some, name=name, role="viewer")[0] == 200, "less"


def test_a_token_for_nothing_is_not_made(web: Web) -> None:
    with pytest.raises(UsageError, match="at least one scope"):
        web.installation.accounts.make_token("x", "ana", Role.ADMIN, frozenset())
    assert web.installation.accounts.tokens() == []


def test_an_operators_token_that_is_not_for_reading_sees_no_headline(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teia.web.server.headline._compute_headline", lambda _: Headline(7, 0, "/c"))
    monkeypatch.setattr("teia.web.server.headline.PATIENCE_S", 30.0)
    for scope, is_shown in ((TokenScope.READ, True), (TokenScope.CRAWL, False)):
        token = web.installation.accounts.make_token(scope, "ana", Role.OPERATOR, frozenset({scope, TokenScope.SEARCH}))
        page = web.client().get("/", headers={"authorization": f"Bearer {token}"}).text
        assert ("7 running" in page) == is_shown


OLDER = {1: "ALTER TABLE tokens DROP COLUMN scopes; ALTER TABLE users DROP COLUMN preferences",
         2: "ALTER TABLE users DROP COLUMN preferences",
         3: "ALTER TABLE users RENAME COLUMN preferences TO choices"}  # fmt: skip
"""What makes a file as it was in an older version."""


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_two_servers_begin_at_once_after_an_update(tmp_path: Path, version: int) -> None:
    """The second one waits for the first, and then finds that there is nothing left to do."""
    path, clock = tmp_path / "web.sqlite", WallClock()
    if version:
        Accounts(path, clock, QUICK).close()
        with closing(sqlite3.connect(path)) as db:
            db.executescript(f"{OLDER[version]}; PRAGMA user_version = {version};")
    versions = [version, version]  # as both read it before either has begun

    class Late(Accounts):
        @property
        def _version(self) -> int:
            return versions.pop() if versions and not self._db.in_transaction else super()._version

    for _ in range(2):
        accounts = Late(path, clock, QUICK)
        accounts.make_token(f"t{len(accounts.tokens())}", "ana", Role.VIEWER)
        accounts.close()
    assert versions == []
    copy = copy_before(path, version)
    assert copy.exists() == (version > 0)
    if version:
        with closing(sqlite3.connect(copy)) as db:
            assert db.execute("PRAGMA user_version").fetchone() == (version,), "the older server can go back to it"
        assert copy.stat().st_mode & 0o077 == 0


def test_a_file_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "web.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 9")
    with pytest.raises(StoreError, match="is of version 9, but this version of teia reads"):
        Accounts(path, WallClock(), QUICK)


def test_tokens_from_before_there_were_scopes_are_good_for_all(tmp_path: Path) -> None:
    path, clock = tmp_path / "web.sqlite", WallClock()
    accounts = Accounts(path, clock, QUICK)
    secret = accounts.make_token("old", "ana", Role.VIEWER)
    accounts.close()
    with closing(sqlite3.connect(path)) as db:
        db.executescript(f"{OLDER[1]}; PRAGMA user_version = 1;")
    accounts = Accounts(path, clock, QUICK)
    assert accounts.find_token(secret) == ("ana", Role.VIEWER, frozenset(TokenScope))
    assert accounts.tokens()[0].scopes == list(TokenScope)
    accounts.close()


def test_density_and_zone_are_chosen_under_you(web: Web) -> None:
    """UX 2.13: language, theme, density, keys, zone. Times are written in that zone by the server, without scripts."""
    client = web.client(Role.VIEWER)
    before = client.get("/settings/you").text
    assert 'data-density="normal"' in before
    assert "data-time-zone" not in before
    sent = {"density": "dense", "zone": "America/Sao_Paulo", "to": "/settings/you", "csrf": web.csrf(client)}
    assert client.post("/choose", data=sent).headers["location"] == "/settings/you"
    page, twin = client.get("/settings/you").text, client.get("/api/v1/settings/you").json()
    assert 'data-density="dense" data-time-zone="America/Sao_Paulo"' in page
    assert (twin["density"], twin["zone"], twin["keys"], twin["theme"]) == ("dense", "America/Sao_Paulo", "on", "auto")
    assert '<option translate="no" selected>America/Sao_Paulo</option>' in page
    web.installation.accounts.log_action("ana", "try")
    admin = web.client(Role.ADMIN)
    admin.cookies.set("teia_zone", "America/Sao_Paulo")
    shown = re.search(r'<time datetime="([^"]+)">([^<]+)</time>', admin.get("/settings/audit").text)
    assert shown is not None
    there = datetime.fromisoformat(shown[1]).astimezone(ZoneInfo("America/Sao_Paulo"))
    assert shown[2].endswith(f"{there:%H:%M}")
    assert client.post("/choose", data={"zone": "auto", "csrf": web.csrf(client)}).status_code == 303
    assert "data-time-zone" not in client.get("/settings/you").text
    for wrong in ({"zone": "Mars/Olympus"}, {"zone": "../etc/passwd"}, {"density": "x"}):
        assert client.post("/choose", data={**wrong, "csrf": web.csrf(client)}).status_code == 400


def test_a_removed_user_is_out_at_once_with_all_tokens(web: Web) -> None:
    admin, viewer = web.client(Role.ADMIN), web.client(Role.VIEWER)
    name = next(user.name for user in web.installation.accounts.users() if user.role == "viewer")
    token = web.installation.accounts.make_token("own", name, Role.VIEWER)
    admin.post("/settings/users/remove", data={"name": name, "csrf": web.csrf(admin)})
    assert viewer.get("/c").headers["location"].startswith("/login")
    assert web.client().get("/api/v1/c", headers={"authorization": f"Bearer {token}"}).status_code == 401


def test_a_smaller_role_makes_smaller_tokens(web: Web) -> None:
    web.client(Role.ADMIN)
    operator = web.client(Role.OPERATOR)
    name = next(user.name for user in web.installation.accounts.users() if user.role == "operator")
    web.installation.accounts.make_token("own", name, Role.OPERATOR)
    web.installation.accounts.set_role(name, Role.VIEWER)
    assert web.installation.accounts.tokens()[0].role == "viewer"
    sent = {"command": "pause", "csrf": web.csrf(operator)}
    assert operator.post("/c/main/command", data=sent).status_code == 403


def test_the_last_admin_stays(web: Web) -> None:
    web.client(Role.ADMIN)
    (only,) = web.installation.accounts.users()
    with pytest.raises(UsageError, match="the only admin"):
        web.installation.accounts.remove_user(only.name)
    with pytest.raises(UsageError, match="the only admin"):
        web.installation.accounts.set_role(only.name, Role.VIEWER)


def test_a_new_password_needs_the_old_one_and_ends_all_sessions(web: Web) -> None:
    client = web.client(Role.VIEWER)
    token = web.csrf(client)
    wrong = client.post("/settings/you/password", data={"old": "something", "new": "x" * 12, "csrf": token})
    assert wrong.status_code == 400
    assert "the old password is wrong" in wrong.text
    short = client.post("/settings/you/password", data={"old": PASSWORD, "new": "short", "csrf": token})
    assert short.status_code == 400
    changed = client.post("/settings/you/password", data={"old": PASSWORD, "new": "x" * 12, "csrf": token})
    assert changed.status_code == 303
    assert client.get("/settings/you").headers["location"].startswith("/login")
    name = web.installation.accounts.users()[0].name
    assert web.client().post("/login", data={"name": name, "password": "x" * 12}).status_code == 303


def test_changes_are_listed_newest_first_in_pieces(web: Web) -> None:
    admin = web.client(Role.ADMIN)
    for number in range(120):
        web.installation.accounts.log_action("ana", "try", number=number)
    first = admin.get("/api/v1/settings/audit").json()
    assert [line["detail"]["number"] for line in first["changes"]][:2] == ["119", "118"]
    second = admin.get("/api/v1/settings/audit", params={"before": first["next"]}).json()
    assert second["changes"][0]["detail"]["number"] == "69"
    assert admin.get("/settings/audit", params={"before": first["next"]}).status_code == 200


def test_the_log_tells_what_was_before_and_what_is_after(web: Web) -> None:
    """UX 2.13: who, what, before -> after; lines from before that was kept apart stay as they are."""
    admin, accounts = web.client(Role.ADMIN), web.installation.accounts
    accounts.log_action("rui", "change settings", collection="old", **{"scope.exclude": '[] -> ["host:a"]'})
    web.client(Role.VIEWER)
    viewer = next(user.name for user in accounts.users() if user.role == "viewer")
    admin.post("/settings/users/role", data={"name": viewer, "role": "operator", "csrf": web.csrf(admin)})
    sent = {"settings": {"courtesy": {"delay_s": 7.5}}}
    changed = web.client().post("/api/v1/c/main/edit", json=sent, headers=web.token(Role.OPERATOR))
    assert changed.status_code == 200, changed.text
    lines = {line["what"]: line for line in reversed(admin.get("/api/v1/settings/audit").json()["changes"])}
    assert lines["change role"]["changes"] == [{"key": "role", "before": "viewer", "after": "operator"}]
    assert lines["change role"]["detail"] == {"user": viewer}
    (made,) = changed.json()["changes"]
    assert (made["key"], made["after"], lines["change settings"]["changes"]) == ("courtesy.delay_s", "7.5", [made])
    assert lines["change settings"]["detail"] == {"collection": "main"}
    page = admin.get("/settings/audit").text
    assert "<code>role</code>: <bdi>viewer</bdi> → <bdi>operator</bdi>" in page
    assert "scope.exclude: <bdi>[] -&gt; [&#34;host:a&#34;]</bdi>" in page


@pytest.mark.parametrize("is_written", [True, False])
def test_settings_that_a_stopped_crawl_did_not_hear_of_are_written_down_all_the_same(
    web: Web, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    def unheard(root: Root, name: str, edits: Sequence[Edit], clock: Clock) -> SettingsChange:
        elsewhere = [Edit("limits.host_budgets", Operator.ADD, "y.test=7")]
        change(root, name, [*edits, *elsewhere] if is_written else elsewhere, clock)
        raise StoreError("its crawl did not answer in time")

    monkeypatch.setattr("teia.collections.drafts.change", unheard)
    sent, to = {"settings": {"courtesy": {"delay_s": 7.5}}}, "/api/v1/c/main/edit"
    assert web.client().post(to, json=sent, headers=web.token(Role.OPERATOR)).status_code == 404
    noted = [(each.what, each.detail["courtesy.delay_s"][1]) for _, each in web.installation.accounts.logged_actions(1)]
    assert noted == [("change settings", "7.5")] * is_written


def test_of_a_long_list_the_log_keeps_what_went_and_what_came() -> None:
    """A rule that goes is in the log, whatever else is changed before it."""
    rules = [f"host:h{number}.test" for number in range(1_000)]
    other = ["host:new.test", *rules[1:500], *rules[501:]]
    assert line_of(rules, other).excerpts() == ('[…, "host:h0.test", "host:h500.test"]', '[…, "host:new.test"]')
    assert line_of(rules, [*rules, "host:a"]).excerpts() == ("[…]", '[…, "host:a"]')
    assert line_of(rules, [*rules, rules[0]]).excerpts() == ("[…]", '[…, "host:h0.test"]'), "twice"
    before, after = line_of(rules, []).excerpts()
    shown = before.count("host:")
    assert shown > 100
    assert before.endswith(f"… +{1_000 - shown}]")
    assert len(before) <= 1.5 * LIST_CHARS
    assert after == "[…]"
    assert len(line_of(["x" * 99_999], []).excerpts()[0]) < LIST_CHARS + 20


def test_of_another_long_text_the_log_keeps_all_that_differs() -> None:
    text = "".join(f"{number} " for number in range(400))
    before, after = ChangeLine("k", text, text.replace(" 200 ", " x ").replace(" 210 ", " y ")).excerpts()
    assert before.startswith("…")
    assert "200 201" in before
    assert "x 201" in after
    assert "209 y 211" in after
    assert max(len(before), len(after)) < 200
    assert ChangeLine("k", text, "").excerpts() == (f"{text[:VALUE_CHARS]}… +{len(text) - VALUE_CHARS}", "")
    assert line_of(list(range(400)), list(range(400))[::-1]).excerpts()[1].startswith("[399, 398"), "another order"
    assert ChangeLine("k", "a", "b").excerpts() == ("a", "b")


def line_of(before: list[Any], after: list[Any]) -> ChangeLine:
    return ChangeLine("k", toml_value(before), toml_value(after))


def test_what_a_user_chose_is_theirs_in_every_browser(web: Web) -> None:
    """UX 4: user > cookie > Accept-Language; who is not signed in has a cookie."""
    first, accounts = web.client(Role.VIEWER), web.installation.accounts
    name = accounts.users()[0].name
    sent = {"language": "pt-BR", "theme": "dark", "density": "dense", "zone": "Asia/Tokyo", "csrf": web.csrf(first)}
    answer = first.post("/choose", data=sent)
    assert answer.status_code == 303
    assert "set-cookie" not in answer.headers
    second = web.client()
    second.post("/login", data={"name": name, "password": PASSWORD})
    second.cookies.set("teia_language", "en")
    second.cookies.set("teia_theme", "light")
    page = second.get("/settings/you", headers={"accept-language": "en"}).text
    assert (
        '<html lang="pt-BR" data-theme="dark" data-keys="on" data-density="dense" data-time-zone="Asia/Tokyo">' in page
    )
    assert '<html lang="pt-BR"' in second.get("/nowhere").text, "also where something is wrong"
    second.post("/choose", data={"keys": "off", "csrf": web.csrf(second)})
    twin = first.get("/api/v1/settings/you").json()
    assert (twin["keys"], twin["theme"], twin["language"]) == ("off", "dark", "pt-BR"), "what was not named stays"
    second.post("/logout", data={"csrf": web.csrf(second)})
    assert '<html lang="en" data-theme="light"' in second.get("/").text, "the cookies of who is not signed in"
    other = web.client()
    assert "teia_language=pt-BR" in other.post("/choose", data={"language": "pt-BR"}).headers["set-cookie"]
    assert '<html lang="pt-BR"' in other.get("/", headers={"accept-language": "en"}).text
    token = web.installation.accounts.make_token("own", name, Role.VIEWER)
    asked = web.client().get("/c", headers={"authorization": f"Bearer {token}"})
    assert '<html lang="en"' in asked.text, "a program has chosen nothing"


def test_users_of_before_have_chosen_nothing_yet(tmp_path: Path) -> None:
    path, clock = tmp_path / "web.sqlite", WallClock()
    accounts = Accounts(path, clock, QUICK)
    accounts.accept_invitation(accounts.invite(Role.VIEWER), "ana", PASSWORD)
    accounts.close()
    with closing(sqlite3.connect(path)) as db:
        db.executescript(f"{OLDER[2]}; PRAGMA user_version = 2;")
    accounts = Accounts(path, clock, QUICK)
    secret = accounts.sign_in("ana", PASSWORD)
    assert secret is not None
    session = accounts.find_session(secret)
    assert session is not None
    assert session.preferences == {}
    accounts.set_preferences("ana", {"theme": "dark"})
    accounts.set_preferences("ana", {"keys": "off"})
    accounts.set_preferences("nobody", {"keys": "off"})
    session = accounts.find_session(secret)
    assert session is not None
    assert session.preferences == {"theme": "dark", "keys": "off"}
    accounts.close()
