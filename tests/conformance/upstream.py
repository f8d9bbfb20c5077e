"""Fetch the test data that other people publish: `scripts/conformance`; upstream.toml has the versions and digests.

Most files are taken from their repositories as they are. Of robots.txt there are no such files: the cases and the real
files of Protego are read out of its source package, which pip fetches. What was put together by hand from several
suites is not published (`BY_HAND`); the tests that need it are skipped and say so.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
MANIFEST = Path(__file__).with_name("upstream.toml")
BASE = "https://github.com"
TIMEOUT_S = 60
AT_ONCE = 4  # connections to one host
REAL_FILES, CASES = "robots/robots_real.jsonl", "robots/robots_cases.json"
BY_HAND = {
    "html/meta_refresh.json": "html/semantics/document-metadata/the-meta-element of WPT",
    "html/srcset.json": "html/semantics/embedded-content/the-img-element of WPT",
    "pagerank/networkx_pagerank.json": "the tests of networkx",
    "robots/robots_aux.json": "google/robotstxt, scrapy/protego and RFC 9309",
    CASES: "google/robotstxt, scrapy/protego (whose 376 cases of 802 are fetched), crawler-commons and RFC 9309",
}
"""Files that were put together by hand, with what they were made of."""


class Refused(Exception):
    """A file that could not be fetched, or is not the one that the manifest names."""


@dataclass(frozen=True)
class File:
    """One file of a repository at a commit."""

    digest: str
    name: str
    address: str

    def is_there(self, folder: Path) -> bool:
        path = folder / self.name
        return path.is_file() and digest_of(path.read_bytes()) == self.digest


def digest_of(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def data_folder() -> Path:
    """Return where tests look: TEIA_CONFORMANCE, a folder beside the checkout, or what scripts/conformance made."""
    beside = ROOT.parent / "shared" / "conformance"
    return Path(os.environ.get("TEIA_CONFORMANCE") or (beside if beside.is_dir() else ROOT / ".cache" / "conformance"))


def absence(name: str = "") -> str:
    """Say how to get a file that a test does not find."""
    if name in BY_HAND:
        return f"not published: {name}, which was put together by hand from {BY_HAND[name]}"
    return f"test data is not at {data_folder() / name}; scripts/conformance fetches it"


def files_of(manifest: dict[str, Any], base: str = BASE) -> Iterator[File]:
    for source in manifest["source"]:
        for line in source["files"].splitlines():
            digest, name, path = line.split()
            yield File(digest, name, f"{base}/{source['repository']}/raw/{source['commit']}/{path}")


def fetch(file: File, folder: Path) -> None:
    """Fetch one file; it gets its name only if it is the one that the manifest names."""
    try:
        with urllib.request.urlopen(file.address, timeout=TIMEOUT_S) as answer:
            body = answer.read()
    except OSError as error:
        raise Refused(f"{file.address}: {error}") from error
    if digest_of(body) != file.digest:
        raise Refused(f"{file.address}: its digest is {digest_of(body)}, not {file.digest}")
    write(folder / file.name, body)


def write(path: Path, body: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as unfinished:
        unfinished.write(body)
    Path(unfinished.name).replace(path)


def fetch_all(folder: Path, manifest: dict[str, Any], base: str = BASE) -> tuple[int, list[str]]:
    """Fetch what is missing or different; return the number of files, and why others are not there."""
    wanted = [file for file in files_of(manifest, base) if not file.is_there(folder)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        jobs = [pool.submit(fetch, file, folder) for file in wanted]
    errors = [str(job.exception()) for job in jobs if job.exception()]
    return len(wanted) - len(errors), errors


# ---- Protego --------------------------------------------------------------------------------------------------------


def fetch_protego(folder: Path, protego: dict[str, str]) -> None:
    """Write the real robots.txt files of Protego's source package, and the cases that its tests state."""
    if all((folder / name).is_file() for name in (REAL_FILES, CASES)):
        return
    with tempfile.TemporaryDirectory() as scratch:
        requirement = Path(scratch) / "requirement.txt"
        requirement.write_text(f"protego=={protego['version']} --hash=sha256:{protego['sha256']}\n", "utf-8")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "protego"]
        done = subprocess.run(
            [*command, "--require-hashes", "-r", requirement, "-d", scratch], capture_output=True, check=False
        )
        if done.returncode:  # what pip says may name private addresses
            raise Refused(
                f"pip could not fetch the sources of Protego {protego['version']}: pip download --no-binary protego"
            )
        with tarfile.open(next(Path(scratch).glob("*.tar.gz"))) as package:
            package.extractall(scratch)  # the digest says what is in it
        sources = next(Path(scratch).glob("protego-*/"))
        write(folder / REAL_FILES, real_files(sources / "tests" / "test_data", protego))
        stated = subprocess.run(
            [sys.executable, "-c", RECORDER], cwd=sources, env={**os.environ, "PYTHONPATH": "src"}, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        if stated.returncode:
            raise Refused(f"the tests of Protego could not be read:\n{stated.stdout[-1000:]}{stated.stderr[-1000:]}")
        write(folder / CASES, json.dumps(cases_of(json.loads(stated.stdout.splitlines()[-1]), protego)).encode())


RECORDER = """
import json, pytest
from protego import Protego
robots, cases, parse, can_fetch = {}, [], Protego.parse.__func__, Protego.can_fetch
def recorded_parse(cls, content):
    rules = parse(cls, content)
    robots[id(rules)] = (content, rules)  # the rules too: another object could get the id of one that is gone
    return rules
def recorded_can_fetch(self, url, agent):
    allowed = can_fetch(self, url, agent)
    cases.append((robots[id(self)][0], agent, url, allowed))
    return allowed
Protego.parse, Protego.can_fetch = classmethod(recorded_parse), recorded_can_fetch
options = ["-q", "-p", "no:cacheprovider", "-c", "/dev/null"]
status = pytest.main([*options, "tests/test_protego.py", "tests/test_on_google_spec.py"])
print("\\n" + json.dumps(cases))
raise SystemExit(status)
"""
"""Runs Protego's own tests, and prints each question that they ask with the answer that they expect."""


def bits(text: str) -> Iterator[bool]:
    """Read hexadecimal digits as a series of choices; the first bit marks where it begins."""
    return (each == "1" for each in f"{int(''.join(text.split()), 16):b}"[1:])


def real_files(folder: Path, protego: dict[str, str]) -> bytes:
    """Return the chosen files as lines of JSON."""
    lines = []
    for path in (path for path, chosen in zip(sorted(folder.iterdir()), bits(protego["files"]), strict=True) if chosen):
        body = path.read_bytes()
        try:
            row = {"host": path.name, "body": body.decode()}
        except UnicodeDecodeError:
            row = {"host": path.name, "body_hex": body.hex()}
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    made = "".join(lines).encode()
    if digest_of(made) != protego["files_sha256"]:
        raise Refused(f"{REAL_FILES} came out otherwise than expected: {digest_of(made)}")
    return made


def cases_of(stated: list[list[Any]], protego: dict[str, str]) -> list[dict[str, Any]]:
    """Return the chosen cases with the numbers by which tests name them."""
    distinct = list(dict.fromkeys(map(tuple, stated)))
    chosen = [case for case, is_chosen in zip(distinct, bits(protego["cases"]), strict=True) if is_chosen]
    cores, numbers = bits(protego["core"]), range(int(protego["first_id"]), 10**9)
    found = [
        {
            "id": number,
            "suite": "protego",
            "core": core,
            "robots": robots,
            "agent": agent,
            "url": url,
            "allowed": allowed,
        }
        for number, core, (robots, agent, url, allowed) in zip(numbers, cores, chosen, strict=False)
    ]
    if digest_of(json.dumps(found).encode()) != protego["cases_sha256"]:
        raise Refused(f"{CASES} came out otherwise than expected")
    return found


# ---- the command ----------------------------------------------------------------------------------------------------


def main(words: list[str], say: Callable[[str], None] = print) -> int:
    parser = argparse.ArgumentParser(prog="scripts/conformance", description="Fetch the test data of other people.")
    parser.add_argument("--out", type=Path, default=ROOT / ".cache" / "conformance", help="the folder (%(default)s)")
    parser.add_argument("--base", default=BASE, help="where the repositories are (%(default)s)")
    chosen = parser.parse_args(words)
    manifest = tomllib.loads(MANIFEST.read_text("utf-8"))
    number, errors = fetch_all(chosen.out, manifest, chosen.base)
    try:
        fetch_protego(chosen.out, manifest["protego"])
    except Refused as error:
        errors.append(str(error))
    for each in errors:
        say(f"teia: {each}")
    say(f"{number} files fetched to {chosen.out}, {len(errors)} failed; by hand, and not fetched: {', '.join(BY_HAND)}")
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
