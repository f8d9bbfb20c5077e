"""Fixity: signed WARC files are read again now and then, and compared with the manifest.

    audits/fixity.json     when each file was last compared, and how it differed

A file is due when it was last read, to be signed or compared, longer ago than the setting `archive.fixity_days` says. A
run compares the files that are due, those that waited longest first, and stops after twice the bytes that must be read
a day; runs are a day apart. So a whole archive that becomes due at once is read within half of that time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from teia.clock import Clock, WallClock, iso_utc
from teia.durable import file_lock, write_atomically
from teia.store.manifest import Manifest, SignedFile, mismatch, read_manifest, read_signed_file

DAY_S = 86_400.0
VERSION = 1
MAX_DETAILS = 20
_TRIES = 3


@dataclass(frozen=True, slots=True)
class FileCheck:
    """The last comparison of a file; `why` is how it differed, empty if it did not."""

    checked_s: float
    why: str = ""


@dataclass(slots=True)
class Fixity:
    """The last comparison of each file, and the time of the last run."""

    run_s: float = 0.0
    files: dict[str, FileCheck] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FixitySummary:
    """State of an archive: signed files and bytes, files that differed when they were last compared.

    `oldest` is the time of the comparison or signature that is longest ago.
    """

    files: int
    bytes: int
    violations: int
    oldest: str | None
    last_run: str | None
    details: tuple[str, ...]


def read_fixity(collection: Path) -> Fixity:
    """Read the results of earlier comparisons; none if the file is missing or unreadable."""
    try:
        found = json.loads(_path(collection).read_bytes())
        if found["version"] != VERSION:
            return Fixity()
        files = found["files"].items()
        return Fixity(float(found["run_s"]), {file: FileCheck(each["checked_s"], each["why"]) for file, each in files})
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return Fixity()


def note_checks(collection: Path, checks: Mapping[str, FileCheck], run_s: float | None = None) -> None:
    """Store the results of comparisons, with the time of the run if it is over."""
    known = read_fixity(collection)
    signed = read_manifest(collection).files
    files = {file: each for file, each in {**known.files, **checks}.items() if file in signed}
    _path(collection).parent.mkdir(exist_ok=True)
    checked = {file: asdict(each) for file, each in files.items()}
    text = {"version": VERSION, "run_s": known.run_s if run_s is None else run_s, "files": checked}
    write_atomically(_path(collection), json.dumps(text, indent=1).encode())


def check_file(collection: Path, file: str) -> str:
    """Compare a file with the manifest; return how they differ. Records may be removed from it meanwhile."""
    for _ in range(_TRIES):
        signed = read_signed_file(collection, file)
        why = mismatch(collection, signed)
        now = read_signed_file(collection, file)
        # An entry that came meanwhile describes another content; between the two of a removal either is right.
        if not why or now.is_erasing:
            return ""
        if now.numbers == signed.numbers:
            return why
    return ""


def due_files(collection: Path, days: float, now_s: float) -> list[SignedFile]:
    """Return the files that a run would compare now, within the bytes of a day; none if the last run is too recent."""
    fixity, manifest = read_fixity(collection), read_manifest(collection)
    if not days or now_s - fixity.run_s < DAY_S:
        return []
    last_s = {file: _last_s(signed, fixity) for file, signed in _present(manifest).items()}
    due = sorted((time_s, file) for file, time_s in last_s.items() if now_s - time_s >= days * DAY_S)
    budget = 2 * sum(signed.end for signed in manifest.files.values()) / days
    chosen = []
    for _, file in due:
        chosen.append(manifest.files[file])
        budget -= manifest.files[file].end
        if budget <= 0:
            break
    return chosen


def run_due(collection: Path, days: float, clock: Clock) -> int:
    """Compare the files that are due; return their number. A second run at the same time does nothing."""
    (collection / "audits").mkdir(exist_ok=True)
    with file_lock(collection / "audits") as is_ours:
        due = due_files(collection, days, clock.now_s()) if is_ours else []
        for signed in due:
            why = check_file(collection, signed.file)
            # After each file: a run that is killed has not read them for nothing.
            note_checks(collection, {signed.file: FileCheck(clock.now_s(), why)})
        if due:
            note_checks(collection, {}, clock.now_s())
    return len(due)


def summarize(collection: Path) -> FixitySummary:
    """Return the state of an archive by its manifest and the comparisons so far."""
    fixity, files = read_fixity(collection), _present(read_manifest(collection))
    wrong = [f"{file}: {each.why}" for file, each in fixity.files.items() if each.why and file in files]
    oldest = min((_last_s(signed, fixity) for signed in files.values()), default=None)
    return FixitySummary(
        len(files),
        sum(signed.end for signed in files.values()),
        len(wrong),
        None if oldest is None else iso_utc(oldest),
        iso_utc(fixity.run_s) if fixity.run_s else None,
        tuple(wrong[:MAX_DETAILS]),
    )


def main(arguments: Sequence[str]) -> int:
    """Compare the due files of a collection's folder, in a process of its own."""
    run_due(Path(arguments[0]), float(arguments[1]), WallClock())
    return 0


def _present(manifest: Manifest) -> dict[str, SignedFile]:
    return {file: signed for file, signed in manifest.files.items() if signed.parts and not signed.is_lost}


def _last_s(signed: SignedFile, fixity: Fixity) -> float:
    """Return when a file was last read as a whole: compared, or signed by its first entry that still holds."""
    check = fixity.files.get(signed.file)
    return max(signed.parts[0].time_s, check.checked_s if check is not None else 0.0)


def _path(collection: Path) -> Path:
    return collection / "audits" / "fixity.json"
