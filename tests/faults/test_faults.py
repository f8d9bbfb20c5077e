"""One failed call on a file of the frontier, the archive, the ledger or the control file loses nothing."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from teia.store.root import open_root
from teia.transfer.read_all import audit_archives, known_urls
from tests.system.labs import crawl, crawl_command, running_lab

from . import powerloss
from .bench import DEATH, ERRORS, FILES, ONCE, STICKY, Bench, Point, compiled, points, sample

SEED = int(os.environ.get("FAULT_SEED", "15"))
SOME, SOME_RESUMED = 12, 6
"""Points of the ordinary run; what takes longer is for the slow one."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("shim"))


@pytest.fixture(scope="module")
def bench(library: Path) -> Iterator[Bench]:
    """In memory where that can be: what a sync does is the shim's affair here, and a real one takes longer."""
    memory = Path("/dev/shm")
    place = tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None)
    with place as folder, Bench(Path(folder), library) as running:
        yield running


@pytest.fixture(scope="module")
def calm(bench: Bench) -> dict[str, Any]:
    return bench.undisturbed()


@pytest.fixture(scope="module")
def half_way(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a death in the middle of a crawl left it."""
    data = tmp_path_factory.mktemp("half") / "data"
    bench.half_way(data)
    return data


def all_complaints(bench: Bench, calm: dict[str, Any], chosen: list[Point], copy_of: Path | None) -> dict[str, Any]:
    """What is wrong after each fault, by the point's name; points that a crawl did not come to are passed over."""
    works = [partial(bench.complaints, point, calm, copy_of) for point in chosen]
    found = dict(zip(map(str, chosen), bench.all_done(works), strict=True))
    assert sum(fired for fired, _ in found.values()) > len(found) / 2, "the faults do not come"
    return {name: wrong for name, (_, wrong) in found.items() if wrong}


def test_the_shim_sees_every_kind_of_call_and_sqlites_own(bench: Bench, calm: dict[str, Any]) -> None:
    calls = bench.counted()
    for files in ("frontier", "archive", "ledger", "control"):
        for deed in ("write", "sync", "truncate", "name"):
            assert calls[files, deed], (files, deed)
    assert len(calm["urls"]) > 20


@pytest.mark.parametrize("how", [ONCE, DEATH, STICKY])
def test_a_commit_whose_sync_fails_loses_nothing(bench: Bench, calm: dict[str, Any], how: str) -> None:
    """It made a collection unusable: the archive was cut below what the frontier had in its log."""
    chosen = [Point("frontier", "sync", nth, errno.EIO, how) for nth in bench.commit_syncs()[2:6:2]]
    assert all_complaints(bench, calm, chosen, None) == {}


def test_faults_in_a_new_collection_lose_nothing(bench: Bench, calm: dict[str, Any]) -> None:
    chosen = sample(random.Random(SEED), points(bench.counted(), (ONCE, DEATH, STICKY)), SOME)
    assert all_complaints(bench, calm, chosen, None) == {}


def test_faults_in_a_start_after_a_death_lose_nothing(bench: Bench, calm: dict[str, Any], half_way: Path) -> None:
    chosen = sample(random.Random(SEED), points(bench.counted(half_way), (ONCE, DEATH, STICKY)), SOME_RESUMED)
    assert all_complaints(bench, calm, chosen, half_way) == {}


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENOMEM], ids=errno.errorcode.get)
def test_files_that_cannot_be_opened_for_want_of_descriptors_or_memory_lose_nothing(
    bench: Bench, calm: dict[str, Any], error: int
) -> None:
    counted = bench.counted()
    chosen = [
        Point(files, "open", nth, error, how)
        for files, how in (("frontier", ONCE), ("archive", STICKY), ("ledger", DEATH))
        for nth in sorted({1, counted[files, "open"]} - {0})
    ]
    assert all_complaints(bench, calm, chosen, None) == {}


SOME_IMAGES, MANY_IMAGES = 3, 500


def test_a_power_loss_loses_nothing_that_was_acknowledged(bench: Bench, calm: dict[str, Any]) -> None:
    assert powerloss.complaints(bench, calm, SOME_IMAGES, random.Random(SEED)) == {}


@pytest.mark.parametrize("stage", ["index", "remove"])
def test_a_power_loss_while_pages_are_indexed_or_removed_loses_nothing(bench: Bench, stage: str) -> None:
    """Texts of links beside the index could not be opened; the number of records stayed too high after a removal."""
    assert powerloss.later_complaints(bench, stage, SOME_IMAGES, random.Random(SEED)) == {}


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("stage", ["index", "remove"])
def test_five_hundred_power_losses_while_pages_are_indexed_or_removed_lose_nothing(bench: Bench, stage: str) -> None:
    assert powerloss.later_complaints(bench, stage, MANY_IMAGES, random.Random(SEED + 2)) == {}


def test_a_disk_that_does_not_sync_the_frontier_would_be_noticed(bench: Bench, calm: dict[str, Any]) -> None:
    """Or the test above could not fail."""
    wrong = powerloss.complaints(bench, calm, SOME_IMAGES, random.Random(SEED), lies=True)
    assert len(wrong) == SOME_IMAGES, "in each image something is missing"
    # Checksums find the damage if they were moved with a part of the log.
    signs = ("asked for again though committed", "the next start fails")
    assert all(any(sign in str(each) for sign in signs) for each in wrong.values())


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_five_hundred_power_losses_lose_nothing_that_was_acknowledged(
    bench: Bench, calm: dict[str, Any], record_property: Callable[[str, object], None]
) -> None:
    assert powerloss.complaints(bench, calm, MANY_IMAGES, random.Random(SEED + 1)) == {}
    record_property("figure 2", f"{MANY_IMAGES} images of power losses: 0 acknowledged pages lost, 0 repaired by hand")


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("error", [pytest.param(each, id=errno.errorcode[each]) for each in ERRORS])
@pytest.mark.parametrize("files", FILES)
@pytest.mark.parametrize("is_resumed", [False, True], ids=["new", "resumed"])
def test_no_single_fault_loses_anything(
    bench: Bench,
    calm: dict[str, Any],
    half_way: Path,
    files: str,
    error: int,
    is_resumed: bool,
    record_property: Callable[[str, object], None],
) -> None:
    """Every call, one at a time. Of each how it may go, every third: neighbours differ in nothing else."""
    copy_of = half_way if is_resumed else None
    chosen = [each for each in points(bench.counted(copy_of)) if each.files == files and each.error == error]
    varied = [Point(p.files, p.deed, p.nth, p.error, how) for p in chosen[::3] for how in (DEATH, STICKY)]
    record_property("figure 2", f"{len(chosen + varied)} failed calls on files: 0 acknowledged pages lost")
    assert all_complaints(bench, calm, chosen + varied, copy_of) == {}


# ---- the command ----------------------------------------------------------------------------------------------------

SPEC = """
seed = 15
hosts = 3
pages = 30

[sites]
nxdomain = 0
unreachable = 0

[errors]
scale = 0.0

[changes]
slowest = 0.0001
fastest = 0.0001

[robots]
crawl_delay = 0
"""


def test_the_command_says_what_failed_and_goes_on_when_it_is_called_again(tmp_path: Path, library: Path) -> None:
    """The same with the command itself, its parse children and a lab."""
    flags = ("--delay", "0", "--cells", "1", "--no-index")
    data = tmp_path / "data"
    fault = {
        "LD_PRELOAD": str(library),
        "FAULT_PATH": r"frontier\.sqlite-wal",
        "FAULT_DEEDS": "sync",
        "FAULT_NTH": "4",
        "FAULT_ERROR": str(errno.EIO),
        "FAULT_STICKY": "1",
    }
    with running_lab(tmp_path, SPEC, 93) as lab:
        command = crawl_command(lab, data, *flags)
        hurt = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **fault}
        )
        assert hurt.returncode == 1, hurt.stderr
        assert "frontier.sqlite: disk I/O error" in hurt.stderr.splitlines()[-1]
        again = crawl(lab, data, *flags)
        crawl(lab, tmp_path / "calm", *flags)
    assert again["state"] == "finished"
    assert pages_of(data) == pages_of(tmp_path / "calm")
    assert audit_archives(open_root(data), "main").violations == 0


def pages_of(data: Path) -> dict[str, tuple[Any, ...]]:
    urls = known_urls(open_root(data), "main")
    return {each["url"]: (each["state"], each["outcome"], each["digest"]) for each in urls}
