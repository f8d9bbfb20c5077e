"""What a collection takes on the disk, its audits, its backup (UX 2.13)."""

from __future__ import annotations

import json
import signal
import sys
import time
from contextlib import closing
from threading import Thread

import pytest

from teia.clock import WallClock
from teia.collections.control_file import CrawlReports
from teia.errors import TeiaError, UsageError
from teia.transfer.audits import AuditKind, audit, last_audit
from teia.transfer.disk_use import backup_commands, measure_disk_use
from teia.web.access.roles import Role
from teia.web.background.audits import Auditor
from tests.waiting import until
from tests.web.conftest import Web

pytestmark = pytest.mark.timeout(600)
"""Other tests may need all of the machine while a child of ours begins."""


@pytest.fixture(autouse=True)
def not_nice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of low priority it would wait for all other tests."""
    monkeypatch.setattr("teia.web.background.audits.NICE", 0)


def auditor_of(web: Web, program: str) -> Auditor:
    """An auditor whose child is a small program."""
    return Auditor(web.installation.root, WallClock(), (sys.executable, "-c", program))


def until_done(auditor: Auditor) -> None:
    until(lambda: auditor.running is None, "the audit ends", within_s=110)


def test_space_is_what_the_files_take(web: Web) -> None:
    root = web.installation.root
    found = measure_disk_use(root, "main")
    everything = sum(path.stat().st_size for path in (root.path / "main").rglob("*") if path.is_file())
    assert found.total_bytes == everything
    assert min(found.archive_bytes, found.frontier_bytes, found.index_bytes) > 0
    assert found.archive_files == sum(len(list(cell.archive.iterdir())) for cell in root.collection("main").cells())
    client = web.client(Role.VIEWER)
    twin, page = client.get("/api/v1/c/main/data").json(), client.get("/c/main/data").text
    assert twin["space"]["total_bytes"] == everything
    assert twin["room"]["disk_bytes"] >= twin["room"]["free_bytes"] > 0
    assert "on the disk, and" in page
    assert "never run" in page
    assert "Run now" not in page, "a viewer reads"


@pytest.mark.heavy
def test_an_audit_is_made_beside_and_what_it_found_is_kept(web: Web) -> None:
    client = web.client(Role.OPERATOR)
    done = client.post("/c/main/data/audit", data={"kind": "archive", "csrf": web.csrf(client)})
    assert (done.status_code, done.headers["location"]) == (303, "/c/main/data")
    until_done(web.installation.auditor)
    rows = {row["kind"]: row for row in client.get("/api/v1/c/main/data").json()["audits"]}
    assert rows["archive"]["violations"] == 0
    assert rows["archive"]["checked"] > 4
    assert rows["archive"]["ended"] is not None
    assert rows["politeness"]["ended"] is None
    assert "Passed" in client.get("/c/main/data").text
    every = web.client(Role.VIEWER).get("/api/v1/settings/data").json()["collections"]
    assert [(each["name"], each["audits"][0]["violations"]) for each in every] == [("main", 0)]
    assert "Passed" in client.get("/settings/data").text
    assert "audit" in [line.what for _, line in web.installation.accounts.logged_actions(5)]


def test_what_an_audit_complains_of_is_shown(web: Web) -> None:
    root = web.installation.root
    archives = [cell.archive for cell in root.collection("main").cells()]
    (file,) = [path for archive in archives for path in archive.glob("*.warc.gz")][:1]
    with file.open("r+b") as opened:
        opened.seek(file.stat().st_size // 2)
        opened.write(b"\0" * 16)
    assert audit(root, "main", AuditKind.ARCHIVE, WallClock()).violations > 0
    row = web.client(Role.VIEWER).get("/api/v1/c/main/data").json()["audits"][0]
    assert row["violations"] > 0
    assert file.name in row["details"][0]
    assert "fault" in web.client(Role.VIEWER).get("/c/main/data").text


def test_politeness_and_index_are_audited_too_and_a_result_that_cannot_be_stored_is_reported(web: Web) -> None:
    root, clock = web.installation.root, WallClock()
    for kind in (AuditKind.POLITENESS, AuditKind.INDEX):
        found = audit(root, "main", kind, clock)
        kept = last_audit(root.collection("main"), kind)
        assert kept is not None
        assert (kept.checked, kept.violations) == (found.checked, found.violations)
    folder = root.collection("main").audits
    for broken in (b"", b"[]", b'{"version": 9}', b'{"version": 1}'):
        (folder / "index.json").write_bytes(broken)
        assert last_audit(root.collection("main"), AuditKind.INDEX) is None
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    folder.write_text("in the way")
    assert audit(root, "main", AuditKind.INDEX, clock).violations == 0
    assert last_audit(root.collection("main"), AuditKind.INDEX) is None


def test_one_audit_at_a_time_and_one_that_fails_says_why(web: Web) -> None:
    slow = auditor_of(web, "import time; time.sleep(600)")
    slow.start("main", AuditKind.ARCHIVE)
    with pytest.raises(UsageError, match="an audit is already running"):
        slow.start("main", AuditKind.INDEX)
    going = slow.running
    assert going is not None
    assert (going.collection, going.kind) == ("main", "archive")
    slow.close()
    until_done(slow)  # it ends with the server
    broken = auditor_of(web, "import sys; print('error: so and so', file=sys.stderr); sys.exit(2)")
    broken.start("main", AuditKind.INDEX)
    until_done(broken)
    assert broken.failure("main", AuditKind.INDEX) == "error: so and so"
    web.installation.auditor = broken
    assert "error: so and so" in web.client(Role.OPERATOR).get("/c/main/data").text


def test_a_failure_is_distinguished_from_faults_that_were_found(web: Web) -> None:
    """Both end with status 1; what was printed tells them apart. Beside a failure the last result stands."""
    audit(web.installation.root, "main", AuditKind.INDEX, WallClock())
    said = '{"error": "CorruptFile", "message": "frontier.sqlite: so and so", "next": ""}'
    for program, failure in (
        (f"import sys; print({said!r}); sys.exit(1)", "frontier.sqlite: so and so"),
        ("raise SystemExit(1)", "it exited with status 1"),
        ("print('[1]')", "it exited with status 0"),
        ('print(\'{"checked": 1200, "violations": 2, "details": []}\'); raise SystemExit(1)',
         "1,200 checked, 2 errors; the result could not be saved in audits/index.json"),
    ):  # fmt: skip
        web.installation.auditor = auditor_of(web, program)
        web.installation.auditor.start("main", AuditKind.INDEX)
        until_done(web.installation.auditor)
        assert web.installation.auditor.failure("main", AuditKind.INDEX) == failure
        page = web.client(Role.VIEWER).get("/c/main/data").text
        assert failure in page
        assert "Passed" in page


@pytest.mark.heavy
def test_a_collection_that_cannot_be_audited_says_why(web: Web) -> None:
    made = {"name": "novo", "settings": {"collection": {"seeds": ["https://novo.test/"]}}}
    assert web.client().post("/api/v1/c", json=made, headers=web.token(Role.ADMIN)).status_code in (200, 201)
    web.installation.auditor.start("novo", AuditKind.INDEX)
    until_done(web.installation.auditor)
    (row,) = [row for row in web.client(Role.VIEWER).get("/api/v1/c/novo/data").json()["audits"] if row["failure"]]
    assert (row["kind"], row["ended"]) == ("index", None)
    assert "novo" in row["failure"]


def test_an_audit_ends_with_its_server_however_that_ends(web: Web) -> None:
    """The kernel kills it: it has asked for that signal (PR_GET_PDEATHSIG)."""
    asks = "import ctypes; found = ctypes.c_int(); ctypes.CDLL(None).prctl(2, ctypes.byref(found))"
    watched = auditor_of(web, f'{asks}; print(\'{{"message": "%d"}}\' % found.value)')
    watched.start("main", AuditKind.INDEX)
    until_done(watched)
    assert watched.failure("main", AuditKind.INDEX) == str(int(signal.SIGKILL))


def test_where_no_audit_can_be_begun_the_next_one_can(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    auditor = auditor_of(web, "import time; time.sleep(600)")

    def fails(_: Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as broken:
        broken.setattr(Thread, "start", fails)
        with pytest.raises(TeiaError, match="can't start new thread"):
            auditor.start("main", AuditKind.INDEX)
    assert auditor.running is None
    auditor.start("main", AuditKind.INDEX)
    auditor.close()
    until_done(auditor)


def test_bad_visit_requests_are_refused(web: Web) -> None:
    client, token = web.client(Role.OPERATOR), web.token(Role.OPERATOR)
    assert client.post("/c/main/data/audit", data={"kind": "x", "csrf": web.csrf(client)}).status_code == 400
    assert web.client().post("/api/v1/c/nada/data/audit", json={"kind": "index"}, headers=token).status_code == 404
    assert client.get("/c/nada/data").status_code == 404


def test_the_commands_of_a_backup_name_the_folder_to_those_who_may_copy_it(web: Web) -> None:
    path = str(web.installation.root.path)
    seen = {role: web.client(role).get("/api/v1/c/main/data").text for role in (Role.VIEWER, Role.OPERATOR)}
    assert path in seen[Role.OPERATOR]
    assert path not in seen[Role.VIEWER]
    assert "--data DIR" in seen[Role.VIEWER]
    running = backup_commands("/a b", "main", ["main", "outra"]).whole
    assert [line.rpartition(" ")[2] for line in running[:2]] == ["main", "outra"]
    assert running[0].startswith("teia stop")
    assert "'/a b'/" in running[2], "a name with a blank is quoted"
    assert json.loads(seen[Role.VIEWER])["running"] == []


def test_a_backup_is_made_while_no_collection_of_the_folder_is_crawled(web: Web) -> None:
    """It copies all of them, whichever the page is of."""
    made = {"name": "outra", "settings": {"collection": {"seeds": ["https://outra.test/"]}}}
    assert web.client().post("/api/v1/c", json=made, headers=web.token(Role.ADMIN)).status_code in (200, 201)
    viewer = web.client(Role.VIEWER)
    assert "No crawl runs now." in viewer.get("/c/main/data").text
    with closing(CrawlReports(web.installation.root.path / "control.sqlite")) as control:
        control.begin("outra", WallClock().now_s())
        twin, page = viewer.get("/api/v1/c/main/data").json(), viewer.get("/c/main/data").text
        control.end("outra")
    assert twin["running"] == ["outra"]
    assert twin["backup"]["whole"][0] == "teia stop --data DIR --collection outra"
    assert "A crawl runs: stop it first." in page


def test_a_page_is_not_loaded_again_by_itself_while_an_audit_is_made(web: Web) -> None:
    """WCAG 2.2.1: somebody may be reading; there is a link."""
    web.installation.auditor = auditor_of(web, "import time; time.sleep(600)")
    web.installation.auditor.start("main", AuditKind.INDEX)
    page = web.client(Role.VIEWER).get("/c/main/data")
    web.installation.auditor.close()
    assert "<progress" in page.text
    assert '<a href="/c/main/data">Reload</a>' in page.text
    assert "refresh" not in page.headers
    assert "http-equiv" not in page.text


def test_the_list_of_all_collections_waits_a_moment_for_all_of_them_together(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience = []

    def space(_: object, name: str, patience_s: float) -> tuple[None, None]:
        patience.append(patience_s)
        time.sleep(patience_s)  # counting takes as long as it may: the subject of this test
        return None, None

    monkeypatch.setattr("teia.web.pages.collection.data._disk_use", space)
    monkeypatch.setattr(type(web.installation), "names", lambda _: ["main"] * 20)
    assert web.client(Role.VIEWER).get("/settings/data").status_code == 200
    assert len(patience) == 20
    assert sum(patience) <= 0.11


def test_a_collection_that_was_never_crawled_has_its_page_too(web: Web) -> None:
    admin = web.client(Role.ADMIN)
    made = {"name": "novo", "settings": {"collection": {"seeds": ["https://novo.test/"]}}}
    assert web.client().post("/api/v1/c", json=made, headers=web.token(Role.ADMIN)).status_code in (200, 201)
    twin, page = admin.get("/api/v1/c/novo/data").json(), admin.get("/c/novo/data")
    assert page.status_code == 200
    assert twin["space"]["archive_files"] == 0
    added = {"urls": ["https://novo.test/a"]}
    done = web.client().post("/api/v1/c/novo/frontier/add", json=added, headers=web.token(Role.OPERATOR)).json()
    assert [each["fate"] for each in done["urls"]] == ["added"]
    assert admin.get("/c/novo/frontier.jsonl").status_code == 404
