"""Copies and what changed between them (T10, F3; UX 12, 13; RELIABILITY 37)."""

from __future__ import annotations

import asyncio
import gzip
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
from starlette.concurrency import run_in_threadpool
from starlette.types import Message

from teia.clock import WallClock, from_iso
from teia.collections.control_file import Inbox, VisitPage
from teia.collections.settings import change
from teia.frontier.cell import revisits
from teia.frontier.cell.cell import FrontierCell
from teia.records import Edit, Operator
from teia.store.root import open_root
from teia.urls import site_of, slot_of
from teia.web import limits
from teia.web.access.accounts import Accounts
from teia.web.access.roles import Role
from teia.web.parts.archived_records import SMALL_BYTES, SignedRecord, Signer, SpooledResponse
from teia.web.server.installation import Busy, Installation, RequestSlots
from tests.web.conftest import QUICK, Web, app_of
from tests.web.hostile import PDF, XSS, crawl_twice, url_of

pytestmark = pytest.mark.heavy  # the first capture starts the process that reads them


@pytest.fixture(scope="module")
def evil_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return crawl_twice(tmp_path_factory.mktemp("evil"))


@pytest.fixture(scope="module")
def evil(evil_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    data = tmp_path_factory.mktemp("served") / "data"
    shutil.copytree(evil_data, data)
    clock = WallClock()
    installation = Installation(open_root(data), clock, Accounts(data / "web.sqlite", clock, QUICK))
    web = Web(app_of(installation), installation)
    web.client().get(seen(web, "/perigo")["frame"])  # starts the process that reads captures, for all tests
    yield web
    installation.close()


def seen(evil: Web, path: str, kind: str = "copy", **query: Any) -> dict[str, Any]:
    """The JSON twin of a copy, a diff or a page."""
    url = url_of(evil.installation.root.path, path)
    answer = evil.client().get(f"/api/v1/c/main/{kind}", params={"url": url, **query})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.heavy
def test_a_copy_is_what_was_stored_and_is_checked(evil: Web) -> None:
    copy = seen(evil, "/changing")
    assert (copy["version"], copy["versions"], copy["is_whole"], copy["type"]) == (2, 2, True, "text/html")
    assert copy["newer"] is None
    older = seen(evil, "/changing", time=copy["older"])
    assert (older["version"], older["newer"]) == (1, copy["time"])
    assert "abre" in seen(evil, "/changing", time=copy["older"], tab="text")["text"]
    assert "fecha" in seen(evil, "/changing", tab="text")["text"]
    page = evil.client().get("/c/main/copy", params={"url": copy["url"]}).text
    assert 'sandbox="allow-top-navigation-by-user-activation" src="/raw/' in page
    assert "version 2 of 2" in page


@pytest.mark.heavy
def test_the_capture_nearest_in_time_is_shown_and_named_as_such(evil: Web) -> None:
    newest = seen(evil, "/changing")
    for time, wanted in (("1999-01-01", newest["older"]), ("2100-01-01T00:00:00Z", newest["time"])):
        copy = seen(evil, "/changing", time=time)
        assert (copy["time"], copy["is_exact"]) == (wanted, False)
        page = evil.client().get("/c/main/copy", params={"url": copy["url"], "time": time}).text
        assert "this is the nearest" in page


@pytest.mark.parametrize(
    "bad",
    [
        {"url": "not a URL"},
        {"url": "javascript:alert(1)"},
        {"time": "yesterday"},
        {"time": "0001-01-01T00:00+14:00"},
        {"time": "9999-12-31T23:59-14:00"},
        {"part": 0},
    ],
)
def test_what_makes_no_sense_is_refused(evil: Web, bad: dict[str, Any]) -> None:
    query = {"url": "http://evil.test/", **bad}
    for path in ("/api/v1/c/main/copy", "/c/main/copy"):
        assert evil.client().get(path, params=query).status_code == 400
    assert evil.client().get("/api/v1/c/nix/copy", params={"url": "http://evil.test/"}).status_code == 404


def test_where_there_is_no_copy_that_is_reported(evil: Web) -> None:
    query = {"url": "http://evil.test/never"}
    assert evil.client().get("/api/v1/c/main/copy", params=query).json()["time"] is None
    assert "teia has no capture of this page." in evil.client().get("/c/main/copy", params=query).text


def test_the_frame_brings_exactly_its_policy_and_knows_nobody(evil: Web) -> None:
    frame = seen(evil, "/perigo")["frame"]
    answers = [evil.client(role).get(frame) for role in (Role.PUBLIC, Role.ADMIN)]
    for answer in answers:
        assert answer.status_code == 200
        assert answer.headers["content-security-policy"] == (
            "sandbox allow-top-navigation-by-user-activation; default-src 'none'; img-src 'self'; "
            "style-src 'self' 'unsafe-inline'; font-src 'self'; frame-ancestors 'self'"
        )
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "cross-origin-resource-policy" not in answer.headers
        assert "set-cookie" not in answer.headers
    assert answers[0].text.count("/raw/") == answers[1].text.count("/raw/") > 0


def test_nothing_of_a_hostile_page_is_left_that_could_act(evil: Web) -> None:
    text = evil.client().get(seen(evil, "/perigo")["frame"]).text
    acting = "<script <iframe <object <embed <video <template <set http-equiv dns-prefetch onload onerror onclick"
    for gone in (*acting.split(), "ping=", "action=", "srcset", "javascript:", "live.test/l", "/api/"):
        assert gone not in text, gone
    assert '<base target="_top">' in text
    assert "Um texto inofensivo" in text
    assert 'href="#end"' in text


@pytest.mark.parametrize("bad", ["", "x", "x.y", "..%2f..%2fetc%2fpasswd", "%00", "a" * 5_000])
def test_an_address_that_was_not_signed_leads_nowhere(evil: Web, bad: str) -> None:
    answer = evil.client().get(f"/raw/{bad}")
    assert answer.status_code == 404
    assert "sandbox" in answer.headers["content-security-policy"], "whatever is answered there, nothing runs"


def test_a_signed_address_is_for_one_record_and_ten_minutes(evil: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = seen(evil, "/other")["frame"]
    plain, _, signature = frame.removeprefix("/raw/").partition(".")
    signer = Signer(evil.installation)
    place = signer.verify(f"{plain}.{signature}")
    assert place is not None
    other = signer.sign(SignedRecord(place.kind, place.collection, place.cell, place.file, place.offset + 1))
    forged = other.removeprefix("/raw/").partition(".")[0]
    assert evil.client().get(f"/raw/{forged}.{signature}").status_code == 404
    assert evil.client().get(frame).status_code == 200
    now_s = evil.installation.clock.now_s()
    monkeypatch.setattr(WallClock, "now_s", lambda _: now_s + limits.RAW_S + 2)
    assert evil.client().get(frame).status_code == 404


def test_pictures_and_styles_that_were_kept_are_shown(evil: Web) -> None:
    copy = seen(evil, "/perigo")
    assert copy["pictures_kept"] >= 1
    assert copy["pictures"] > copy["pictures_kept"]
    page = evil.client().get("/c/main/copy", params={"url": copy["url"]}).text
    assert f"{copy['pictures'] - copy['pictures_kept']} of {copy['pictures']} pictures were not kept" in page
    text = evil.client().get(copy["frame"]).text
    picture = text.partition('alt="nossa" src="')[2].partition('"')[0]
    answer = evil.client().get(picture)
    assert (answer.headers["content-type"], answer.content[:3]) == ("image/gif", b"GIF")
    sheet = text.partition('<link rel="stylesheet" href="/raw/')[2].partition('"')[0]
    css = evil.client().get(f"/raw/{sheet}")
    assert css.headers["content-type"].startswith("text/css")
    assert "37px" in css.text
    assert "live.test" not in css.text


def test_a_pdf_is_read_as_text_and_comes_as_a_file(evil: Web) -> None:
    copy = seen(evil, "/doc.pdf", tab="text")
    assert (copy["type"], copy["frame"]) == ("application/pdf", "")
    assert "Um edital velho" in copy["text"]
    file = evil.client().get(copy["file"])
    assert file.content == PDF
    assert file.headers["content-disposition"] == "attachment; filename*=UTF-8''doc.pdf"
    assert file.headers["content-type"] == "application/octet-stream"


def test_the_record_can_be_had_and_read_by_others(evil: Web) -> None:
    copy = seen(evil, "/changing", tab="record")
    fields = {each["name"]: each["value"] for each in copy["record_headers"]}
    assert fields["warc-type"] == "response"
    assert fields["warc-target-uri"] == copy["url"]
    record = evil.client().get(copy["record"])
    assert gzip.decompress(record.content).startswith(b"WARC/1.1\r\n")
    page = evil.client().get("/c/main/copy", params={"url": copy["url"], "tab": "record"}).text
    assert "Checked now" in page
    assert fields["warc-payload-digest"] in page


def test_a_damaged_record_is_reported(evil: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teia.views.captures.matches", lambda _, __: False)
    copy = seen(evil, "/other")
    assert copy["is_whole"] is False
    assert "damaged" in evil.client().get("/c/main/copy", params={"url": copy["url"]}).text


def test_source_is_numbered_text(evil: Web) -> None:
    copy = seen(evil, "/plain.txt", tab="source")
    assert XSS in copy["source"][0]
    page = evil.client().get("/c/main/copy", params={"url": copy["url"], "tab": "source"}).text
    assert XSS not in page
    assert '<ol class="source" start="1"' in page


def test_who_may_read_a_copy_sees_its_pictures_though_the_frame_knows_nobody(evil: Web) -> None:
    """Copies that are not for everybody: the frame's own requests carry no cookie, and its signature is enough."""
    url = url_of(evil.installation.root.path, "/perigo")
    shut = [Edit(key, Operator.SET, False) for key in ("public.search", "public.copies")]
    change(evil.installation.root, "main", shut, evil.installation.clock)
    try:
        assert evil.client().get("/api/v1/c/main/copy", params={"url": url}).status_code in (403, 404)
        copy = evil.client(Role.VIEWER).get("/api/v1/c/main/copy", params={"url": url}).json()
        frame = evil.client().get(copy["frame"])
        assert frame.status_code == 200
        picture = frame.text.partition('alt="nossa" src="')[2].partition('"')[0]
        assert evil.client().get(picture).status_code == 200
    finally:
        change(
            evil.installation.root,
            "main",
            [Edit(edit.key, Operator.SET, True) for edit in shut],
            evil.installation.clock,
        )


# ---- what changed ---------------------------------------------------------------------------------------------------


def test_a_diff_marks_exactly_the_words_that_changed(evil: Web) -> None:
    """UX 13."""
    diff = seen(evil, "/changing", "diff")
    parts = [(each["kind"], each["before"], each["after"]) for each in diff["comparison"]["parts"]]
    assert ("changed", "abre", "fecha") in parts
    changed = [part for part in parts if part[0] == "changed"]
    assert changed == [("changed", "abre", "fecha"), ("changed", "nove.", "nove, e a feira não."), *changed[2:]]
    assert "O mercado" in next(part[1] for part in parts if part[0] == "same")
    page = evil.client().get("/c/main/diff", params={"url": diff["url"]}).text
    assert "<del>abre</del>" in page
    assert "<ins>fecha</ins>" in page
    assert [each.rpartition("/")[2] for each in diff["comparison"]["links_added"]] == ["new-link"]
    assert diff["comparison"]["links_removed"] == []


def test_a_change_of_markup_alone_counts_as_the_same(evil: Web) -> None:
    diff = seen(evil, "/markup", "diff")["comparison"]
    assert (diff["is_same_bytes"], diff["is_same_text"], diff["removed"]) == (False, True, 0)
    page = evil.client().get("/c/main/diff", params={"url": url_of(evil.installation.root.path, "/markup")}).text
    assert "counted as the same" in page


def test_two_versions_are_chosen_by_their_boxes(evil: Web) -> None:
    url = url_of(evil.installation.root.path, "/changing")
    times = [each["time"] for each in seen(evil, "/changing", "page")["marks"]]
    answer = evil.client().get("/api/v1/c/main/diff", params={"url": url, "v": times})
    assert [answer.json()["a"], answer.json()["b"]] == times
    swapped = evil.client().get("/api/v1/c/main/diff", params={"url": url, "a": times[1], "b": times[0]})
    assert swapped.json()["a"] == times[0]
    assert evil.client().get("/api/v1/c/main/diff", params={"url": url, "v": times[:1]}).status_code == 400
    for tab in ("links", "headers"):
        assert evil.client().get("/c/main/diff", params={"url": url, "tab": tab}).status_code == 200
    assert evil.client().get("/api/v1/c/main/diff", params={"url": "http://evil.test/never"}).status_code == 404


def test_texts_that_are_too_long_are_not_compared(evil: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teia.views.compare_captures.MAX_CHARS", 10)
    diff = seen(evil, "/changing", "diff")["comparison"]
    assert diff["is_too_long"]
    assert diff["parts"] == []
    page = evil.client().get("/c/main/diff", params={"url": url_of(evil.installation.root.path, "/changing")}).text
    assert "Too long to compare" in page


def test_how_current_a_result_is_stands_beside_it(evil: Web) -> None:
    """UX 3: rank, last visit, and how likely our copy is current, as the twin has it."""
    hits = evil.client().get("/api/v1/search?q=mercado").json()["hits"]
    page = evil.client().get("/search?q=mercado").text
    later = {
        hit["url"]: hit["fresh_probability"] for hit in evil.client().get("/api/v1/search?q=mercado").json()["hits"]
    }
    shares = [hit["fresh_probability"] for hit in hits]
    assert shares
    assert all(0 < share <= 1 for share in shares)
    for hit in hits:
        assert f'<span class="rank">{hit["rank"]}</span>' in page
        # It falls as time passes, perhaps by a whole percent between two requests.
        assert any(f"{round(100 * share)}%" in page for share in (hit["fresh_probability"], later[hit["url"]]))


def test_a_result_that_is_probably_old_says_when_it_is_visited_next(evil: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    (hit,) = evil.client().get("/api/v1/search?q=mercado").json()["hits"]
    assert hit["next_due"] is None
    due_s = evil.installation.clock.now_s() + 7_200
    with evil.installation.lookup("main") as lookup:
        entry = lookup.find(hit["url"])
        assert entry is not None
        path = lookup.folders[entry.cell].frontier
    frontier = FrontierCell(path)
    with frontier.transaction():
        revisits.set_due(frontier, (slot_of(site_of(entry.host)), entry.host_id, entry.key), due_s)
    frontier.close()
    assert evil.client().get("/api/v1/search?q=mercado").json()["hits"][0]["next_due"] is None, "it is current"
    monkeypatch.setattr("teia.indexer.open_search.FrontierFacts._fresh", lambda *_: 0.31)
    (hit,) = evil.client().get("/api/v1/search?q=mercado").json()["hits"]
    assert from_iso(hit["next_due"]) == pytest.approx(due_s, abs=0.01)
    page = evil.client().get("/search?q=mercado").text
    assert "31% · may have changed" in page
    assert "next visit" in page


# ---- a page's page --------------------------------------------------------------------------------------------------


def test_a_page_shows_its_visits_and_lets_versions_be_compared(evil: Web) -> None:
    page = seen(evil, "/changing", "page")
    assert [each["what"] for each in page["marks"]] == ["first", "changed"]
    assert page["visits"] == 2
    text = evil.client().get("/c/main/page", params={"url": page["url"]}).text
    assert "visits so far: 2 of the 5" in text
    assert text.count('type="checkbox"') == 2
    assert page["identity"]["file"] in text
    assert [each["title"] for each in page["linked_from"]] == ["T"]
    states = {each["url"].rpartition("/")[2]: each["state"] for each in page["linked_to"]}
    assert states == {"": "done", "new-link": "done"}


def test_a_page_that_was_never_seen_can_be_added(evil: Web) -> None:
    url = "http://evil.test/not-yet"
    answer = evil.client().get("/c/main/page", params={"url": url})
    assert answer.status_code == 303
    page = evil.client().get(answer.headers["location"])
    assert "teia has never seen this address" in page.text
    assert "Add it" not in page.text
    operator = evil.client(Role.OPERATOR)
    assert "Add it" in operator.get(answer.headers["location"]).text
    done = operator.post("/c/main/add", data={"url": url, "csrf": evil.csrf(operator)})
    assert done.status_code == 303
    assert "It is now a seed of main" in operator.get(done.headers["location"]).text
    assert url in evil.installation.config("main").collection.seeds
    assert evil.installation.accounts.logged_actions(1)[0][1].what == "add"
    known = evil.client().get("/api/v1/c/main/unknown", params={"url": url_of(evil.installation.root.path, "/other")})
    assert known.headers["location"].startswith("/api/v1/c/main/page?url=")
    unknown = evil.client().get("/api/v1/c/main/unknown", params={"url": "http://elsewhere.example/"}).json()
    assert (unknown["would"], "scope" in unknown["why"]) == (False, True)


def test_a_check_now_waits_for_a_crawl(evil: Web) -> None:
    url = url_of(evil.installation.root.path, "/other")
    operator = evil.client(Role.OPERATOR)
    assert "Check now" not in evil.client().get("/c/main/page", params={"url": url}).text
    assert "Check now" in operator.get("/c/main/page", params={"url": url}).text
    done = operator.post("/c/main/check", data={"url": url, "csrf": evil.csrf(operator)})
    assert "No crawl is running" in operator.get(done.headers["location"]).text
    control = Inbox(evil.installation.root.path / "control.sqlite")
    assert [each.body.url for each in control.pending("main", VisitPage)] == [url]
    control.close()
    headers = evil.token(Role.OPERATOR)
    bad = evil.client().post("/api/v1/c/main/check", json={"url": "http://evil.test/never"}, headers=headers)
    assert bad.status_code == 404


@pytest.mark.heavy
def test_a_limited_number_of_captures_is_read_at_a_time_and_others_get_a_retry_after(web: Web) -> None:
    client, url = web.client(), web.some_url()
    frame = client.get("/api/v1/c/main/copy", params={"url": url}).json()["frame"]
    web.installation.capture_slots = RequestSlots(at_once=1, waiting=0, patience_s=0.01)
    with web.installation.capture_slots.hold():
        for path in (f"/c/main/copy?url={url}", f"/api/v1/c/main/copy?url={url}", frame, f"/c/main/diff?url={url}"):
            answer = client.get(path)
            assert answer.status_code == 503, path
            assert int(answer.headers["retry-after"]) >= 1
        assert client.get("/health").status_code == 200
    assert client.get(f"/c/main/copy?url={url}").status_code == 200
    assert client.get(frame).status_code == 200


def test_a_waiting_request_gets_a_slot_or_a_refusal_in_time() -> None:
    turns = RequestSlots(at_once=1, waiting=1, patience_s=30.0)
    order: list[str] = []

    def second() -> None:
        with turns.hold():
            order.append("second")

    with turns.hold():
        waiting = threading.Thread(target=second)
        waiting.start()
        while turns._admitted.acquire(blocking=False):
            turns._admitted.release()  # until the other waits
        with pytest.raises(Busy), turns.hold():
            pass
        order.append("first")
    waiting.join(30)
    assert order == ["first", "second"]


def test_so_many_copies_are_sent_at_a_time_and_slow_readers_wait_for_a_file(web: Web) -> None:
    web.installation.capture_streams = threading.BoundedSemaphore(1)
    sent = SpooledResponse(web.installation, b"x" * (3 * SMALL_BYTES + 1), "text/plain")
    assert sent._file._rolled, "not in memory"  # type: ignore[attr-defined]
    with pytest.raises(Busy):
        SpooledResponse(web.installation, b"x", "text/plain")
    pieces: list[Message] = []

    async def send(message: Message) -> None:
        pieces.append(message)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    asyncio.run(sent({}, receive, send))
    assert [len(each.get("body", b"")) for each in pieces] == [0, SMALL_BYTES, SMALL_BYTES, SMALL_BYTES, 1, 0]
    SpooledResponse(web.installation, b"x", "text/plain")._end()


def test_what_is_being_sent_lies_on_the_disk_of_the_archive(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/dev/shm")  # memory, as the usual folder may be
    sent = SpooledResponse(web.installation, b"x" * (SMALL_BYTES + 1), "text/plain")
    try:
        lies_at = Path(f"/proc/self/fd/{sent._file.fileno()}").readlink()
        assert lies_at.parent == web.installation.root.path.resolve()
    finally:
        sent._end()
    assert not [path for path in web.installation.root.path.iterdir() if path.name.startswith("tmp")]


def test_health_is_answered_when_every_thread_is_busy(web: Web) -> None:
    asked: list[int] = []

    async def ask() -> None:
        limiter = anyio.to_thread.current_default_thread_limiter()
        limiter.total_tokens = 1
        done, started = threading.Event(), threading.Event()
        holding = asyncio.create_task(run_in_threadpool(lambda: started.set() or done.wait(60)))
        await asyncio.to_thread(started.wait, 60)
        try:
            async with asyncio.timeout(20):
                await _ask(web, asked)
        finally:
            done.set()
            await holding

    asyncio.run(ask())
    assert asked == [200]


async def _ask(web: Web, asked: list[int]) -> None:
    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            asked.append(message["status"])

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": "/health", "raw_path": b"/health", "query_string": b"", "root_path": "",
        "headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8700), "state": {},
    }  # fmt: skip
    await web.app(scope, receive, send)
