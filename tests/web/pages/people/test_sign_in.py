"""Forms of people that forgive: an error stays on the form, beside its field, with what was typed."""

from __future__ import annotations

from html import unescape

import pytest

from teia.web.access.roles import Role
from tests.web.conftest import PASSWORD, Web


def test_a_wrong_password_stays_on_the_form_with_the_name_and_where_to_go(web: Web) -> None:
    web.client(Role.VIEWER)
    answer = web.client().post("/login", data={"name": "viewer-0", "password": "wrong", "to": "/c/main"})
    assert answer.status_code == 401
    assert 'value="viewer-0"' in answer.text
    assert '<input type="hidden" name="to" value="/c/main">' in answer.text
    assert 'aria-invalid="true" aria-describedby="password-fault"' in answer.text
    assert 'id="password-fault" role="alert">wrong user name or password<' in answer.text
    assert "wrong</" not in answer.text.replace("wrong user", ""), "the password itself is not shown"
    portuguese = web.client().post(
        "/login", data={"name": "viewer-0", "password": "wrong"}, headers={"accept-language": "pt-BR"}
    )
    assert "usuário ou senha incorretos" in portuguese.text


def test_before_the_first_account_there_is_nothing_to_sign_in_with(web: Web) -> None:
    """A newcomer typed a new name and password into the form for those who have an account."""
    page = web.client().get("/login").text
    assert "Create the first account" in page
    assert 'action="/login"' not in page
    web.client(Role.VIEWER)
    assert 'action="/login"' in web.client().get("/login").text


@pytest.mark.parametrize(
    ("field", "typed", "id_"),
    [("code", "not a code", "code"), ("name", "two words", "new-name"), ("password", "short", "new-password")],
)
def test_an_invitation_that_fails_stays_on_the_form(web: Web, field: str, typed: str, id_: str) -> None:
    code = web.installation.accounts.invite(Role.VIEWER)
    given = {"code": code, "name": "ana", "password": PASSWORD, field: typed}
    answer = web.client().post("/login/first", data=given)
    assert answer.status_code == 400
    assert f'id="{id_}-fault"' in answer.text
    for kept in ("code", "name"):
        assert f'value="{given[kept]}"' in answer.text
    assert PASSWORD not in answer.text
    again = web.client().post("/login/first", data={"code": code, "name": "ana", "password": PASSWORD})
    assert again.headers["location"] == "/c", "the invitation still works"


def test_a_password_and_a_token_are_refused_beside_their_fields(web: Web) -> None:
    client = web.client(Role.ADMIN)
    csrf = web.csrf(client)
    wrong = client.post("/settings/you/password", data={"csrf": csrf, "old": "x", "new": "long enough for it"})
    assert (wrong.status_code, 'id="old-fault"' in wrong.text) == (400, True)
    short = client.post("/settings/you/password", data={"csrf": csrf, "old": PASSWORD, "new": "short"})
    assert 'id="new-fault"' in short.text
    token = client.post("/settings/tokens/make", data={"csrf": csrf, "name": "nightly", "role": "viewer"})
    assert (token.status_code, 'id="scopes-fault"' in token.text, 'value="nightly"' in token.text) == (400, True, True)
    api = client.post(
        "/api/v1/settings/tokens/make", headers=web.token(Role.ADMIN), json={"name": "nightly", "role": "viewer"}
    )
    assert api.json()["field"] == "scopes", "programs get the error as before"


def test_what_happened_is_said_once_on_the_next_page_in_the_readers_language(web: Web) -> None:
    admin, other = web.client(Role.ADMIN), web.client(Role.VIEWER)
    assert other.get("/settings/you").status_code == 200
    done = admin.post("/settings/users/remove", data={"csrf": web.csrf(admin), "name": "viewer-1"})
    assert done.headers["location"] == "/settings/users"
    portuguese = {"accept-language": "pt-BR"}
    assert "o usuário viewer-1 foi removido" in admin.get("/settings/users", headers=portuguese).text
    assert "foi removido" not in admin.get("/settings/users", headers=portuguese).text
    only = admin.post("/settings/users/remove", data={"csrf": web.csrf(admin), "name": "admin-0"})
    assert (only.status_code, "admin-0 is the only admin" in unescape(only.text)) == (400, True)


def test_a_forged_notice_is_no_notice(web: Web) -> None:
    for value in ("x", "%%%", "PHNjcmlwdD4="):
        client = web.client()
        client.cookies.set("teia_notice", value)
        page = client.get("/")
        assert page.status_code == 200
        assert "<script>" not in page.text
