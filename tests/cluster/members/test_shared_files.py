"""Contents of files that settings name: the same on every node, whole or not at all."""

from __future__ import annotations

import hashlib
import random
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from teia.cluster.crawl.settings import amend_settings, share_new_files
from teia.cluster.members import shared_files
from teia.cluster.members.agreement import WITH_FILES, agree, amend_agreement, write_settings
from teia.cluster.members.shared_files import BUCKET, fetch_files, remove_unused_copies, share_files, with_copies
from teia.cluster.nats.wire import open_bucket
from teia.collections.settings import parse_edit
from teia.config.load import load
from teia.config.sections import Config
from teia.errors import ClusterError, ConfigError, UsageError
from teia.store.root import open_root
from tests.cluster.conftest import Nats


def settings(*exclude: str) -> Config:
    return load(
        None, {}, {"collection.seeds": ["http://a.test/"], "scope.exclude": exclude, "collection.cells": 2}
    ).config


def text_of(path: str) -> str:
    return Path(path).read_text("utf-8")


def test_a_list_reaches_another_folder_in_parts(
    nats: Nats, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_files, "PART_BYTES", 1_000)
    draw, path = random.Random(5), tmp_path / "names.txt"
    path.write_text("".join(f"n{draw.getrandbits(60):x}.test\n" for _ in range(500)), "utf-8")
    rule = f"list:{path}"

    async def main() -> None:
        wire, here, there = (
            await nats.wire(),
            open_root(tmp_path / "a", create=True),
            open_root(tmp_path / "b", create=True),
        )
        first = await agree(wire, nats.clock, unique, settings(rule), nats.count, root=here)
        assert (first.version, list(first.files)) == (WITH_FILES, [rule])
        text = path.read_text("utf-8")
        path.unlink()
        again = await agree(wire, nats.clock, unique, settings(rule), nats.count, root=there)  # reads no file
        await fetch_files(wire, nats.clock, unique, nats.count, again.files, there.collection("main"))
        config = write_settings(there, again)
        (copied,) = config.scope.exclude
        assert text_of(copied.removeprefix("list:")) == text
        assert load(there.collection("main").config).config == config
        # The copy's name, which a form shows, is the same rule; the file need not be read again.
        edits, files = await share_new_files(
            wire, nats.clock, unique, again, there, [parse_edit(f'scope.exclude=["{copied}", "domain:b.test"]')]
        )
        assert files == {}
        now = await amend_agreement(
            wire, nats.clock, unique, lambda each: amend_settings(each, edits, files), nats.count
        )
        assert (now.config.scope.exclude, now.files) == ((rule, "domain:b.test"), first.files)
        # A rule is removed by either name; one that is not there, or in the list only, is refused.
        for word in (copied, rule):
            edits, _ = await share_new_files(
                wire, nats.clock, unique, now, there, [parse_edit(f"scope.exclude-={word}")]
            )
            assert amend_settings(now, edits).config.scope.exclude == ("domain:b.test",)
        for word, why in (("domain:c.test", "is not excluded"), (f"domain:{text.split()[0]}", f"is in {path}")):
            with pytest.raises(UsageError, match=why):
                await share_new_files(wire, nats.clock, unique, now, there, [parse_edit(f"scope.exclude-={word}")])
        now = amend_settings(now, [parse_edit(f"scope.exclude-={rule}")])
        assert now.files == {}
        with pytest.raises(ConfigError, match="other nodes do not have this file"):
            amend_settings(now, [parse_edit(f"scope.exclude+={rule}")])

    nats.run(main())


def test_a_damaged_or_missing_content_is_refused(nats: Nats, unique: str, tmp_path: Path) -> None:
    path = tmp_path / "names.txt"
    path.write_text("a.test\n")

    async def main() -> None:
        wire, root = await nats.wire(), open_root(tmp_path / "a", create=True)
        files = await share_files(wire, nats.clock, unique, nats.count, root, settings(f"list:{path}"))
        (file,) = files.values()
        bucket = await open_bucket(wire, nats.clock, BUCKET, nats.count)
        await bucket.put(f"{unique}.{file.partition('/')[0]}.0", b"no")
        with pytest.raises(ClusterError, match="give the file again"):
            await fetch_files(wire, nats.clock, unique, nats.count, files, root.collection("main"))
        with pytest.raises(ClusterError, match="give the file again"):
            await fetch_files(wire, nats.clock, "other", nats.count, files, root.collection("main"))
        assert not (root.collection("main").lists / file).exists()

    nats.run(main())


@pytest.mark.parametrize("part", [b"no", None], ids=["damaged", "lost"])
def test_a_file_that_is_given_again_repairs_its_content(
    nats: Nats, unique: str, tmp_path: Path, part: bytes | None
) -> None:
    path = tmp_path / "names.txt"
    path.write_text("a.test\n")

    async def main() -> None:
        wire, root, config = await nats.wire(), open_root(tmp_path / "a", create=True), settings(f"list:{path}")
        (file,) = (await share_files(wire, nats.clock, unique, nats.count, root, config)).values()
        bucket, key = await open_bucket(wire, nats.clock, BUCKET, nats.count), f"{unique}.{file.partition('/')[0]}.0"
        if part is None:
            await bucket.delete(key)
        else:
            await bucket.put(key, part)
        files = await share_files(wire, nats.clock, unique, nats.count, root, config)
        await fetch_files(wire, nats.clock, unique, nats.count, files, root.collection("main"))
        assert text_of(str(root.collection("main").lists / file)) == "a.test\n"

    nats.run(main())


@pytest.mark.parametrize(
    "file",
    ["{}/../../../../outside.txt", "{}/..", "{}/.", "{}/", "{}", "{}//tmp/outside.txt", "../{}/a", "{}/a/b", "{}x/a"],
)
def test_a_name_in_the_agreement_cannot_leave_the_folder(nats: Nats, unique: str, tmp_path: Path, file: str) -> None:
    root, path = open_root(tmp_path / "a" / "data", create=True), tmp_path / "names.txt"
    path.write_text("a.test\n")

    async def main() -> None:
        wire = await nats.wire()
        config = settings(f"list:{path}")
        (good,) = (await share_files(wire, nats.clock, unique, nats.count, root, config)).values()
        files = {f"list:{path}": file.format(good.partition("/")[0])}
        with pytest.raises(ClusterError, match="not the name of a shared file"):
            await fetch_files(wire, nats.clock, unique, nats.count, files, root.collection("main"))
        with pytest.raises(ClusterError, match="not the name of a shared file"):
            with_copies(config, files, root.collection("main"))

    before = sorted(tmp_path.rglob("*"))
    nats.run(main())
    assert sorted(tmp_path.rglob("*")) == before


def test_one_limit_holds_for_what_is_shared_and_what_is_unpacked(
    nats: Nats, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small message may hold a large content."""
    monkeypatch.setattr(shared_files, "MAX_BYTES", 1_000)
    path, config = tmp_path / "weights.txt", settings()
    config = replace(config, refresh=replace(config.refresh, weights="file", weights_file=str(path)))

    async def main() -> None:
        wire, root = await nats.wire(), open_root(tmp_path / "a", create=True)
        for data in (b"#" * 1_000, b"#" * 1_001):
            path.write_bytes(data)
            digest = hashlib.sha256(data).hexdigest()
            bucket, folder = await open_bucket(wire, nats.clock, BUCKET, nats.count), root.collection("main")
            await bucket.put(f"{unique}.{digest}.0", zlib.compress(data))
            await bucket.put(f"{unique}.{digest}", b"1")
            sharing = share_files(wire, nats.clock, unique, nats.count, root, config)
            fetching = fetch_files(wire, nats.clock, unique, nats.count, {"x": f"{digest}/weights.txt"}, folder)
            if len(data) == 1_000:
                assert list((await sharing).values()) == [f"{digest}/weights.txt"]
                await fetching
                continue
            with pytest.raises(ConfigError, match="the limit of files that nodes share"):
                await sharing
            with pytest.raises(ClusterError, match="lost or damaged"):
                await fetching

    nats.run(main())


def test_copies_that_nobody_names_are_removed(tmp_path: Path) -> None:
    folder = open_root(tmp_path / "a", create=True).collection("main")
    old, running, agreed = (f"{number:064x}/list.txt" for number in range(3))
    for file in (old, running, agreed):
        (folder.lists / file).parent.mkdir(parents=True)
        (folder.lists / file).write_text("a.test\n")
    (folder.lists / "0.rules").write_text("")
    of_crawl = with_copies(settings("list:/x"), {"list:/x": running}, folder)
    remove_unused_copies(folder, {"list:/x": agreed}, of_crawl)
    left = {path.name for path in folder.lists.iterdir()}
    assert left == {"0.rules", *(file.partition("/")[0] for file in (running, agreed))}
    remove_unused_copies(folder, {})
    assert [path.name for path in folder.lists.iterdir()] == ["0.rules"]


def test_weights_are_read_and_checked_where_they_are_named(nats: Nats, unique: str, tmp_path: Path) -> None:
    path = tmp_path / "weights.txt"
    path.write_text("http://a.test/ heavy\n")
    config = settings()
    config = replace(config, refresh=replace(config.refresh, weights="file", weights_file=str(path)))

    async def main() -> None:
        wire, root = await nats.wire(), open_root(tmp_path / "a", create=True)
        with pytest.raises(ConfigError, match="heavy"):
            await share_files(wire, nats.clock, unique, nats.count, root, config)
        path.write_text("http://a.test/ 3\n")
        files = await share_files(wire, nats.clock, unique, nats.count, root, config)
        folder = root.collection("main")
        await fetch_files(wire, nats.clock, unique, nats.count, files, folder)
        copied = with_copies(config, files, folder).refresh.weights_file
        assert copied.startswith(f"{folder.lists}/")
        assert text_of(copied) == "http://a.test/ 3\n"

    nats.run(main())
