"""Subscriptions in the web interface: who may make them, what is shown of them, and their feeds (T10)."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from teia.notify.subscriptions import open_subscriptions
from teia.signals.webhook import message
from teia.sqlite import transaction
from teia.web.access.roles import Role
from tests.web.conftest import XSS, Web

ATOM = "{http://www.w3.org/2005/Atom}"


def subscribed(web: Web, **asked: str) -> dict[str, str]:
    headers = web.token(Role.OPERATOR)
    answer = web.client().post("/api/v1/c/main/watches/add", json=asked, headers=headers)
    assert answer.status_code == 200, answer.text
    view = answer.json()
    found = next(each for each in view["subscriptions"] if each["id"] == view["made"])
    return {**found, "secret": view["secret"]}


def tell(web: Web, made: dict[str, str], items: list[dict[str, object]]) -> None:
    store = open_subscriptions(web.installation.root.collection("main").subscriptions)
    of = store.get(made["id"])
    assert of is not None
    with transaction(store.db):
        store.queue_notice(
            of, "0" * 32, 1_700_000_000.0, message("page.changed", "2026-01-01T00:00:00Z", {"items": items})
        )
    store.close()


def test_a_form_begins_a_subscription_and_shows_its_secret_once(web: Web) -> None:
    client, url = web.client(Role.OPERATOR), web.some_url()
    page = client.get("/c/main/page", params={"url": url})
    assert "Subscribe to changes" in page.text
    form = client.get("/c/main/watches", params={"url": url})
    assert f'name="url" inputmode="url" maxlength="8000" autocomplete="off" value="{url}"' in form.text
    sent = {"url": url, "query": "", "webhook": "https://b.test/hook?key=abc", "csrf": web.csrf(client)}
    made = client.post("/c/main/watches/add", data=sent)
    assert made.status_code == 200, made.text
    assert "whsec_" in made.text
    listed = client.get("/c/main/watches")
    assert "whsec_" not in listed.text
    assert "key=abc" not in listed.text
    assert ("<wbr>hook" in listed.text, "test/<wbr>…" in listed.text) == (False, True)
    (line,) = [each for _, each in web.installation.accounts.logged_actions(5) if each.what == "watch"]
    assert line.detail == {"collection": "main", "watched": url, "webhook": "b.test"}


def test_the_list_and_its_twin_say_the_same_and_a_subscription_can_be_ended(web: Web) -> None:
    made = subscribed(web, query="imposto")
    assert made["secret"] == ""
    viewer = web.client(Role.VIEWER)
    (listed,) = viewer.get("/api/v1/c/main/watches").json()["subscriptions"]
    assert (listed["kind"], listed["what"], listed["webhook"]) == ("search", "imposto", None)
    assert "secret" not in listed
    page = viewer.get("/c/main/watches")
    assert "imposto" in page.text
    assert "<button aria-label" not in page.text, "a viewer changes nothing"
    headers = web.token(Role.OPERATOR)
    no_webhook = web.client().post("/api/v1/c/main/watches/try", json={"id": made["id"]}, headers=headers)
    assert (no_webhook.status_code, "has no webhook" in no_webhook.text) == (400, True)
    gone = web.client().post("/api/v1/c/main/watches/remove", json={"id": made["id"]}, headers=headers)
    assert gone.status_code == 200, gone.text
    assert viewer.get("/api/v1/c/main/watches").json()["subscriptions"] == []
    assert "No subscriptions yet." in viewer.get("/c/main/watches").text


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"url": "http://x.test/never", "webhook": ""}, "is not known"),
        ({"query": "imposto", "webhook": "http://127.0.0.1:8700/"}, "loopback"),
        ({}, "either the URL of a page"),
    ],
)
def test_what_makes_no_sense_is_reported(web: Web, asked: dict[str, str], why: str) -> None:
    answer = web.client().post("/api/v1/c/main/watches/add", json=asked, headers=web.token(Role.OPERATOR))
    assert answer.status_code in (400, 404), answer.text
    assert why in answer.json()["message"]


def test_who_has_its_address_reads_a_feed_and_nobody_else(web: Web) -> None:
    made = subscribed(web, url=web.some_url())
    parts = [
        {"kind": "same", "before": "a", "after": "a", "words": 1},
        {"kind": "changed", "before": XSS, "after": "new \x07words", "words": 0},
        {"kind": "skipped", "before": "", "after": "", "words": 7},
    ]
    difference = {"before": "2026-01-01T00:00:00Z", "removed": 1, "added": 2, "parts": parts, "not_shown": 3}
    item = {"url": made["what"], "title": XSS, "what": "changed", "seen": "2026-01-01T00:00:00Z", "outcome": "200"}
    tell(web, made, [{**item, "difference": difference}])
    answer = web.client().get(f"/c/main/feed/{made['feed']}")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/atom+xml")
    feed = ET.fromstring(answer.content)
    (entry,) = feed.findall(f"{ATOM}entry")
    assert entry.findtext(f"{ATOM}title") == XSS
    shown = entry.findtext(f"{ATOM}content") or ""
    assert "<del>&lt;script&gt;alert(1)&lt;/script&gt;</del> <ins>new words</ins> [… 7 …]" in shown
    for key in ("x", "", made["id"], made["feed"][:-1]):
        assert web.client().get(f"/c/main/feed/{key}").status_code == 404
    for path, said in (("/c/{}/feed/x", "there is no such feed"), ("/websub/{}/x", "there is no subscription here")):
        for name in ("main", "none"):
            assert said in web.client().get(path.format(name)).text, "nobody learns which collections there are"


def test_results_lead_to_a_subscription_to_their_search(web: Web) -> None:
    found = web.client(Role.OPERATOR).get("/search", params={"q": "imposto", "language": "pt"})
    assert "/c/main/watches?q=lang%3Apt+imposto#new" in found.text
    assert "Watch this search" not in web.client().get("/search", params={"q": "imposto"}).text


def test_a_subscription_that_fails_stays_on_the_form_with_what_was_typed(web: Web) -> None:
    client = web.client(Role.OPERATOR)
    given = {"csrf": web.csrf(client), "url": web.some_url(), "webhook": "ftp://b.test/hook"}
    answer = client.post("/c/main/watches/add", data=given)
    assert answer.status_code == 400
    assert 'id="w-webhook-fault" role="alert">webhook: must be an http or https URL' in answer.text
    assert 'value="ftp://b.test/hook"' in answer.text
    assert f'value="{given["url"]}"' in answer.text
    both = client.post("/c/main/watches/add", data={**given, "webhook": "", "query": "imposto"})
    assert 'id="w-url-fault"' in both.text
    assert 'value="imposto"' in both.text
