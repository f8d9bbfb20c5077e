"""The audit of the manifest names the file that is not as it was signed, and what is to be done about it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from teia.cli.main import application
from teia.clock import VirtualClock
from teia.crawler.upkeep.closed_files import sign_all
from teia.store.manifest import MANIFEST, read_manifest
from teia.store.root import Root, open_root
from teia.store.signing_key import KEY_FILE, open_signer, public_pem
from teia.transfer.audits import AuditKind, audit, last_audit
from teia.transfer.import_data import ImportResult, open_target
from teia.transfer.import_warc import import_warc
from teia.transfer.manifest_audit import audit_manifest
from tests.crawler.offline import NOW_S, offline_crawl
from tests.store.signed_archives import change_byte

SEED = "http://a.test/"
WEB = {SEED: "".join(f'<a href="/{n}">{n}</a>' for n in range(6)), **{f"{SEED}{n}": f"<p>page {n}" for n in range(6)}}
CLOCK = VirtualClock(NOW_S + 10.0)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    with offline_crawl(WEB, tmp_path, SEED, collection__cells=1) as crawl:
        crawl.run()
    root = open_root(tmp_path / "data")
    assert sign_all(root.collection("main"), CLOCK) == 1
    return root


def warc(root: Root) -> Path:
    (path,) = root.path.rglob("*.warc.gz")
    return path


def run(root: Root, *words: str) -> Result:
    command, *rest = words
    where = ["--data", str(root.path)]
    return CliRunner().invoke(application([command]), [command, *rest, *where])


def printed(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return found


def test_a_sound_archive_has_no_violation_and_its_result_is_stored(root: Root) -> None:
    found = audit(root, "main", AuditKind.MANIFEST, CLOCK)
    assert (found.checked, found.violations) == (1, 0)
    stored = last_audit(root.collection("main"), AuditKind.MANIFEST)
    assert stored is not None
    assert stored.violations == 0


def test_a_changed_file_is_named_until_a_user_accepts_it(root: Root) -> None:
    change_byte(warc(root), 2_000)
    found = run(root, "audit", "manifest", "--json")
    assert found.exit_code == 1
    ((line),) = printed(found)["details"]
    assert warc(root).name in line
    assert "signed" in line
    status = printed(run(root, "status", "--json"))
    assert (status["fixity"]["files"], status["fixity"]["violations"]) == (1, 1)
    assert run(root, "audit", "manifest", "--accept", "a disk lost this sector").exit_code == 0
    last = json.loads((root.path / "main" / MANIFEST).read_text().splitlines()[-1])
    assert (last["event"], last["reason"]) == ("accepted", "a disk lost this sector")
    assert printed(run(root, "status", "--json"))["fixity"]["violations"] == 0


def test_what_is_not_signed_yet_is_counted_and_no_violation(root: Root) -> None:
    with offline_crawl({**WEB, SEED: "<p>another"}, root.path.parent, SEED, collection__cells=1) as crawl:
        crawl.revisit_only(SEED)
    found = audit_manifest(root, "main", CLOCK)
    assert (found.violations, found.unsigned) == (0, 1)
    assert 0 < found.unsigned_bytes < warc(root).stat().st_size
    assert printed(run(root, "manifest", "sign", "--json"))["new_entries"] == 1
    assert audit_manifest(root, "main", CLOCK).unsigned == 0


def test_a_manifest_by_a_key_that_is_not_trusted_fails(root: Root, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = tmp_path / "other.pem"
    other.write_text(public_pem(open_signer(tmp_path / "other").public))
    found = run(root, "audit", "manifest", "--key", str(other), "--json")
    assert found.exit_code == 1
    assert "not trusted" in printed(found)["details"][0]
    own = tmp_path / "own.pem"
    own.write_text(run(root, "manifest", "key").stdout)
    assert run(root, "audit", "manifest", "--key", str(own)).exit_code == 0


def test_a_restored_folder_without_its_private_key_is_still_verified_and_signs_on(root: Root, tmp_path: Path) -> None:
    restored = tmp_path / "restored"
    shutil.copytree(root.path, restored)
    (restored / KEY_FILE).unlink()
    copy = open_root(restored)
    assert audit_manifest(copy, "main", CLOCK).violations == 0
    with offline_crawl({**WEB, SEED: "<p>another"}, tmp_path, SEED, collection__cells=1) as crawl:
        crawl.revisit_only(SEED)
    shutil.copytree(root.path / "main", restored / "main", dirs_exist_ok=True)
    assert sign_all(copy.collection("main"), CLOCK) == 1
    found = audit_manifest(copy, "main", CLOCK)
    assert (found.violations, len(found.keys)) == (0, 2)


def test_an_archive_that_was_repaired_matches_again_and_grows(root: Root, tmp_path: Path) -> None:
    path = warc(root)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    assert audit_manifest(root, "main", CLOCK).violations == 1
    assert run(root, "audit", "archive", "--repair").exit_code == 0
    assert audit_manifest(root, "main", CLOCK).details == ()
    with offline_crawl(WEB, tmp_path, SEED, collection__cells=1) as crawl:
        crawl.revisit_only(SEED)
    assert audit_manifest(root, "main", CLOCK).details == ()
    assert sign_all(root.collection("main"), CLOCK) == 1
    assert audit_manifest(root, "main", CLOCK).details == ()


def test_imported_records_are_signed_at_once(root: Root, tmp_path: Path) -> None:
    copy = open_root(tmp_path / "copy", create=True)
    text = (root.path / "main" / "teia.toml").read_text()
    copy.create_collection("main", text, 1)

    async def take(files: list[Path]) -> None:
        with open_target(copy, "main", CLOCK) as target:
            await import_warc(target, files, ImportResult("main"))

    asyncio.run(take([warc(root)]))
    found = audit_manifest(copy, "main", CLOCK)
    assert (found.entries, found.violations, found.unsigned) == (1, 0, 0)


def test_closed_files_are_listed_as_sha256sum_reads_them(root: Root) -> None:
    folder = root.collection("main").path
    foreign = folder / "cells" / "00" / "archive" / "imported.warc.gz"
    shutil.copy(warc(root), foreign)
    assert sign_all(root.collection("main"), CLOCK) == 1
    listed = run(root, "manifest", "sums").stdout
    assert listed == f"{hashlib.sha256(foreign.read_bytes()).hexdigest()}  cells/00/archive/{foreign.name}\n"
    subprocess.run(["sha256sum", "--check", "-"], input=listed, text=True, cwd=folder, check=True, capture_output=True)


def test_a_manifest_that_lost_an_entry_fails(root: Root) -> None:
    path = root.path / "main" / MANIFEST
    foreign = root.path / "main" / "cells" / "00" / "archive" / "imported.warc.gz"
    shutil.copy(warc(root), foreign)
    sign_all(root.collection("main"), CLOCK)
    first, second = path.read_text().splitlines(keepends=True)
    path.write_text(second)
    assert audit_manifest(root, "main", CLOCK).violations
    path.write_text(first)
    # Entries cut off at the end leave a chain that is sound; their files are seen to be unsigned.
    assert audit_manifest(root, "main", CLOCK).unsigned == 1
    assert read_manifest(root.path / "main").entries == 1


def test_due_files_are_compared_by_a_command(root: Root) -> None:
    found = printed(run(root, "audit", "manifest", "--due", "--json"))
    assert (found["checked"], found["files"], found["violations"]) == (1, 1, 0)
    assert printed(run(root, "audit", "manifest", "--due", "--json"))["checked"] == 0
