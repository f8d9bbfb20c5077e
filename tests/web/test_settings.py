"""People, tokens, the log of changes; one's own password."""

from __future__ import annotations

import re

import pytest

from teia.errors import UsageError
from teia.web.roles import Role

from .conftest import PASSWORD, Web


def test_an_invitation_makes_an_account_of_its_role(web: Web) -> None:
    admin = web.client(Role.ADMIN)
    shown = admin.post("/settings/users/invite", data={"role": "operator", "csrf": web.csrf(admin)}).text
    (code,) = re.findall(r"/login#([\w-]+)", shown)
    made = web.client().post("/login/first", data={"code": code, "name": "rui", "password": PASSWORD})
    assert made.status_code == 303
    assert ("rui", "operator") in [(user.name, user.role) for user in web.site.accounts.users()]
    assert "rui" in admin.get("/settings/users").text


def test_a_token_is_shown_once_and_is_good_until_it_is_removed(web: Web) -> None:
    admin = web.client(Role.ADMIN)
    shown = admin.post("/settings/tokens/make", data={"name": "cron", "role": "viewer", "csrf": web.csrf(admin)}).text
    (token,) = set(re.findall(r"teia_[\w-]{20,}", shown))
    assert token not in admin.get("/settings/tokens").text
    headers = {"authorization": f"Bearer {token}"}
    assert web.client().get("/api/v1/c", headers=headers).status_code == 200
    assert web.client().get("/api/v1/settings/tokens", headers=headers).status_code == 403, "it is a viewer's"
    owner = web.site.accounts.tokens()[0].user
    admin.post("/settings/tokens/remove", data={"name": "cron", "user": owner, "csrf": web.csrf(admin)})
    assert web.client().get("/api/v1/c", headers=headers).status_code == 401


def test_a_removed_user_is_out_at_once_with_all_tokens(web: Web) -> None:
    admin, viewer = web.client(Role.ADMIN), web.client(Role.VIEWER)
    name = next(user.name for user in web.site.accounts.users() if user.role == "viewer")
    token = web.site.accounts.make_token("own", name, Role.VIEWER)
    admin.post("/settings/users/remove", data={"name": name, "csrf": web.csrf(admin)})
    assert viewer.get("/c").headers["location"].startswith("/login")
    assert web.client().get("/api/v1/c", headers={"authorization": f"Bearer {token}"}).status_code == 401


def test_a_smaller_role_makes_smaller_tokens(web: Web) -> None:
    web.client(Role.ADMIN)
    operator = web.client(Role.OPERATOR)
    name = next(user.name for user in web.site.accounts.users() if user.role == "operator")
    web.site.accounts.make_token("own", name, Role.OPERATOR)
    web.site.accounts.set_role(name, Role.VIEWER)
    assert web.site.accounts.tokens()[0].role == "viewer"
    sent = {"command": "pause", "csrf": web.csrf(operator)}
    assert operator.post("/c/main/command", data=sent).status_code == 403


def test_the_last_admin_stays(web: Web) -> None:
    web.client(Role.ADMIN)
    (only,) = web.site.accounts.users()
    with pytest.raises(UsageError, match="the only admin"):
        web.site.accounts.remove_user(only.name)
    with pytest.raises(UsageError, match="the only admin"):
        web.site.accounts.set_role(only.name, Role.VIEWER)


def test_a_new_password_needs_the_old_one_and_ends_all_sessions(web: Web) -> None:
    client = web.client(Role.VIEWER)
    token = web.csrf(client)
    wrong = client.post("/settings/you/password", data={"old": "something", "new": "x" * 12, "csrf": token})
    assert wrong.status_code == 400
    assert "the old password is not right" in wrong.text
    short = client.post("/settings/you/password", data={"old": PASSWORD, "new": "short", "csrf": token})
    assert short.status_code == 400
    changed = client.post("/settings/you/password", data={"old": PASSWORD, "new": "x" * 12, "csrf": token})
    assert changed.status_code == 303
    assert client.get("/settings/you").headers["location"].startswith("/login")
    name = web.site.accounts.users()[0].name
    assert web.client().post("/login", data={"name": name, "password": "x" * 12}).status_code == 303


def test_changes_are_listed_newest_first_in_pieces(web: Web) -> None:
    admin = web.client(Role.ADMIN)
    for number in range(120):
        web.site.accounts.note("ana", "try", number=number)
    first = admin.get("/api/v1/settings/audit").json()
    assert [line["detail"]["number"] for line in first["changes"]][:2] == ["119", "118"]
    second = admin.get("/api/v1/settings/audit", params={"before": first["next"]}).json()
    assert second["changes"][0]["detail"]["number"] == "69"
    assert admin.get("/settings/audit", params={"before": first["next"]}).status_code == 200
