"""What a collection takes on the disk, its audits, its backup (UX 2.13)."""

from __future__ import annotations

import json
import sys
import time

import pytest

from teia.clock import WallClock
from teia.crawl.audits import Kind, audit, last_audit
from teia.crawl.holdings import backup_of, holding_of
from teia.errors import UsageError
from teia.web.auditing import Auditor
from teia.web.roles import Role

from .conftest import Web


def until_done(auditor: Auditor) -> None:
    until = time.monotonic() + 60
    while auditor.going is not None and time.monotonic() < until:
        time.sleep(0.02)
    assert auditor.going is None


def test_space_is_what_the_files_take(web: Web) -> None:
    root = web.site.root
    found = holding_of(root, "main")
    everything = sum(path.stat().st_size for path in (root.path / "main").rglob("*") if path.is_file())
    assert found.total_bytes == everything
    assert min(found.archive_bytes, found.frontier_bytes, found.index_bytes) > 0
    assert found.archive_files == sum(len(list(cell.archive.iterdir())) for cell in root.collection("main").cells())
    client = web.client(Role.VIEWER)
    twin, page = client.get("/api/v1/c/main/data").json(), client.get("/c/main/data").text
    assert twin["space"]["total_bytes"] == everything
    assert twin["room"]["disk_bytes"] >= twin["room"]["free_bytes"] > 0
    assert "on the disk, and" in page
    assert "never made" in page
    assert "Run now" not in page, "a viewer reads"


def test_an_audit_is_made_beside_and_what_it_found_is_kept(web: Web) -> None:
    client = web.client(Role.OPERATOR)
    done = client.post("/c/main/data/audit", data={"kind": "archive", "csrf": web.csrf(client)})
    assert (done.status_code, done.headers["location"]) == (303, "/c/main/data")
    until_done(web.site.auditor)
    rows = {row["kind"]: row for row in client.get("/api/v1/c/main/data").json()["audits"]}
    assert rows["archive"]["violations"] == 0
    assert rows["archive"]["checked"] > 4
    assert rows["archive"]["ended"] is not None
    assert rows["politeness"]["ended"] is None
    assert "all well" in client.get("/c/main/data").text
    every = web.client(Role.VIEWER).get("/api/v1/settings/data").json()["collections"]
    assert [(each["name"], each["audits"][0]["violations"]) for each in every] == [("main", 0)]
    assert "all well" in client.get("/settings/data").text
    assert "audit" in [line.what for _, line in web.site.accounts.noted(5)]


def test_what_an_audit_complains_of_is_shown(web: Web) -> None:
    root = web.site.root
    archives = [cell.archive for cell in root.collection("main").cells()]
    (file,) = [path for archive in archives for path in archive.glob("*.warc.gz")][:1]
    with file.open("r+b") as opened:
        opened.seek(file.stat().st_size // 2)
        opened.write(b"\0" * 16)
    assert audit(root, "main", Kind.ARCHIVE, WallClock()).violations > 0
    row = web.client(Role.VIEWER).get("/api/v1/c/main/data").json()["audits"][0]
    assert row["violations"] > 0
    assert file.name in row["details"][0]
    assert "fault" in web.client(Role.VIEWER).get("/c/main/data").text


def test_politeness_and_index_are_audited_too_and_where_nothing_can_be_kept_it_is_told(web: Web) -> None:
    root, clock = web.site.root, WallClock()
    for kind in (Kind.POLITENESS, Kind.INDEX):
        found = audit(root, "main", kind, clock)
        kept = last_audit(root.collection("main"), kind)
        assert kept is not None
        assert (kept.checked, kept.violations) == (found.checked, found.violations)
    folder = root.collection("main").audits
    for broken in (b"", b"[]", b'{"version": 9}', b'{"version": 1}'):
        (folder / "index.json").write_bytes(broken)
        assert last_audit(root.collection("main"), Kind.INDEX) is None
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    folder.write_text("in the way")
    assert audit(root, "main", Kind.INDEX, clock).violations == 0
    assert last_audit(root.collection("main"), Kind.INDEX) is None


def test_one_audit_at_a_time_and_one_that_fails_says_why(web: Web) -> None:
    slow = Auditor(web.site.root, WallClock(), (sys.executable, "-c", "import time; time.sleep(60)"))
    slow.begin("main", Kind.ARCHIVE)
    with pytest.raises(UsageError, match="an audit is being made already"):
        slow.begin("main", Kind.INDEX)
    going = slow.going
    assert going is not None
    assert (going.collection, going.kind) == ("main", "archive")
    slow.close()
    assert slow.going is None, "it ends with the server"
    program = "import sys; print('error: so and so', file=sys.stderr); sys.exit(2)"
    broken = Auditor(web.site.root, WallClock(), (sys.executable, "-c", program))
    broken.begin("main", Kind.INDEX)
    until_done(broken)
    assert broken.failure("main", Kind.INDEX) == "error: so and so"
    web.site.auditor = broken
    assert "error: so and so" in web.client(Role.OPERATOR).get("/c/main/data").text


def test_bad_wishes_are_refused(web: Web) -> None:
    client, token = web.client(Role.OPERATOR), web.token(Role.OPERATOR)
    assert client.post("/c/main/data/audit", data={"kind": "x", "csrf": web.csrf(client)}).status_code == 400
    assert web.client().post("/api/v1/c/nada/data/audit", json={"kind": "index"}, headers=token).status_code == 404
    assert client.get("/c/nada/data").status_code == 404


def test_the_commands_of_a_backup_name_the_folder_to_those_who_may_copy_it(web: Web) -> None:
    path = str(web.site.root.path)
    seen = {role: web.client(role).get("/api/v1/c/main/data").text for role in (Role.VIEWER, Role.OPERATOR)}
    assert path in seen[Role.OPERATOR]
    assert path not in seen[Role.VIEWER]
    assert "--data DIR" in seen[Role.VIEWER]
    running = backup_of("/a b", "main", is_running=True).whole
    assert running[0].startswith("teia stop")
    assert "'/a b'/" in running[1], "a name with a blank is quoted"
    assert json.loads(seen[Role.VIEWER])["is_running"] is False


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
