"""Audit of the manifest: `teia audit manifest`.

Every entry is checked (number, chain, signature, key), and every file it names is read and compared with its digest.
Committed files of which the manifest says nothing yet are counted and are no violation: the next crawl signs them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from teia.clock import Clock, iso_utc
from teia.collections.settings import is_clustered
from teia.errors import StoreError
from teia.store.audit import MAX_DETAILS, Audit
from teia.store.fixity import FileCheck, check_file, note_checks
from teia.store.manifest import Manifest, accept_mismatches, name_in, read_manifest, unsigned_files
from teia.store.root import CollectionFolder, Root
from teia.store.signing_key import public_keys
from teia.transfer.read_all import committed_archive


@dataclass(frozen=True, slots=True)
class ManifestAudit(Audit):
    """Result of an audit of the manifest: files `checked`; number of entries, and digest of the last one (`head`).

    `unsigned` files have committed bytes that are not signed yet, `unsigned_bytes` of them.
    """

    entries: int = 0
    head: str = ""
    keys: tuple[str, ...] = field(default=())
    unsigned: int = 0
    unsigned_bytes: int = 0


def audit_manifest(root: Root, name: str, clock: Clock, trusted: Sequence[bytes] = ()) -> ManifestAudit:
    """Verify the manifest of a collection and all files it names, by the keys of the folder or by these alone."""
    folder = root.collection(name)
    manifest = read_manifest(folder.path, must_verify=True)
    wrong = [*manifest.complaints, *_key_complaints(manifest, trusted or public_keys(root.path))]
    checks: dict[str, FileCheck] = {}
    for file, signed in manifest.files.items():
        why = check_file(folder.path, file)
        checks[file] = FileCheck(clock.now_s(), why)
        if signed.damaged_s is not None:
            wrong.append(f"{file}: did not match when records were removed from it on {iso_utc(signed.damaged_s)}")
        if why:
            wrong.append(f"{file}: {why}")
    # A read-only folder: the caller gets the result all the same.
    with suppress(StoreError, OSError):
        note_checks(folder.path, checks)
    unsigned, unsigned_bytes = _unsigned(folder, manifest)
    keys = tuple(key.hex() for key in manifest.keys)
    return ManifestAudit(
        len(checks), len(wrong), tuple(wrong[:MAX_DETAILS]), manifest.entries, manifest.head, keys, unsigned,
        unsigned_bytes,
    )  # fmt: skip


def _key_complaints(manifest: Manifest, trusted: Sequence[bytes]) -> list[str]:
    return [
        f"entry {number} and maybe others are signed by the key {key.hex()}, which is not trusted"
        for key, number in manifest.keys.items()
        if key not in trusted
    ]


def _unsigned(folder: CollectionFolder, manifest: Manifest) -> tuple[int, int]:
    """Return the number of files with committed bytes that are not signed, and the number of the bytes."""
    files = size = 0
    for cell in folder.cells():
        found = unsigned_files(
            folder.path, cell.archive, committed_archive(cell), manifest, cells_move=is_clustered(folder)
        )
        for path, end in [*((path, path.stat().st_size) for path in found.closed), (found.open_file, found.end)]:
            if path is not None:
                files, size = files + 1, size + end - manifest.of(name_in(folder.path, path)).end
    return files, size


def accept(root: Root, name: str, reason: str, clock: Clock) -> list[str]:
    """Sign the files that do not match as they are now; the caller has locked the root."""
    folder, ends = root.collection(name), dict[str, int]()
    for cell in folder.cells():
        end = committed_archive(cell)
        if end is not None:
            ends[name_in(folder.path, cell.archive / end.file)] = end.offset
    return accept_mismatches(folder.path, ends, reason, clock.now_s())
