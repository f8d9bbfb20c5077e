"""Files that the settings of a collection name, shared by all nodes: rule lists, weights of pages, a learnt topic.

Such a file is on the machine where a user named it. The node there stores its content in NATS, under its digest, before
it proposes the settings; the agreement names the digests (`Agreement.files`). Every node writes the contents into its
folder before it uses the settings, and the teia.toml of its folder names these copies. So a list that changed is
another setting: nodes apply it as such, and readers of a folder need nothing else.

Contents stay in NATS when no setting names them any more: a node that is about to write the same one must not lose it.
Copies in a folder are removed then.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import shutil
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from teia.clock import Clock
from teia.cluster.nats.wire import Wire, open_bucket
from teia.config.load import to_toml
from teia.config.sections import Config, FocusSettings
from teia.crawler.keep_fresh.weights import weigher
from teia.durable import disk_errors, write_atomically
from teia.errors import ClusterError, ConfigError
from teia.frontier.queue.order import focused
from teia.frontier.rules.rule_lists import MAX_LIST_BYTES
from teia.frontier.rules.scope import canonical_list, list_of
from teia.store.root import CollectionFolder, Root

BUCKET = "files"
PART_BYTES = 512 * 1024
MAX_BYTES = MAX_LIST_BYTES
"""Limit on a content, of whichever kind: it is neither shared nor unpacked beyond it."""

DIGEST = re.compile("[0-9a-f]{64}")
WEIGHTS, TOPIC = "refresh.weights_file", "focus"
"""Names of files that are no rule list; a list is named by its rule."""


# ---- what settings name ----------------------------------------------------------------------------------------------


def named_files(config: Config) -> list[str]:
    """Return the names of the files that the settings name."""
    rules = (*config.scope.include, *config.scope.exclude)
    names = [rule for rule in rules if list_of(rule)]
    names += [WEIGHTS] if config.refresh.weights == "file" else []
    return names + ([TOPIC] if config.collection.order == focused.name else [])


def read_files(root: Root, config: Config, names: Collection[str], clock: Clock) -> dict[str, tuple[str, bytes]]:
    """Read files on this machine, and learn the topic; return (file name, content) by name. Wrong contents raise."""
    found = {}
    for name in names:
        if name == TOPIC:
            from teia.crawler.child.focus import FILE_NAME, learn_topic_file  # imports the code that parses pages

            found[name] = (FILE_NAME, learn_topic_file(root, config, clock))
            continue
        path = Path(config.refresh.weights_file if name == WEIGHTS else list_of(name))
        with disk_errors(path, "read"), path.open("rb") as file:
            found[name] = (path.name, file.read(MAX_BYTES + 1))
        if len(found[name][1]) > MAX_BYTES:
            raise ConfigError(f"{path}: larger than {MAX_BYTES >> 20} MiB, the limit of files that nodes share")
        if name == WEIGHTS:
            weigher(config.refresh, path)
        else:
            canonical_list(str(path))
    return found


def topic_settings(focus: FocusSettings) -> tuple[tuple[str, ...], ...]:
    """Return the settings that a topic is learnt from."""
    return focus.words, focus.examples, focus.others


def path_of_copy(folder: CollectionFolder, file: str) -> Path:
    """Return the path of a copy; ClusterError unless the agreed DIGEST/FILE is a name in the folder of copies.

    The agreement is written by other machines: a name such as `DIGEST/../../x` must not leave the folder.
    """
    digest, _, name = file.partition("/")
    is_name = name == Path(name).name and name not in {"", ".", ".."} and "\0" not in name
    if not is_name or DIGEST.fullmatch(digest) is None:
        raise ClusterError(f"{file!a} in the agreement is not the name of a shared file; give the file again")
    return folder.lists / digest / name


def with_copies(config: Config, files: Mapping[str, str], folder: CollectionFolder) -> Config:
    """Return the agreed settings with the paths of the copies in a folder; without copies they are unchanged."""
    scope, copies = config.scope, {name: path_of_copy(folder, file) for name, file in files.items()}
    include, exclude = (
        tuple(f"list:{copies[rule]}" if rule in copies else rule for rule in rules)
        for rules in (scope.include, scope.exclude)
    )
    refresh = replace(config.refresh, weights_file=str(copies.get(WEIGHTS, config.refresh.weights_file)))
    return replace(config, scope=replace(scope, include=include, exclude=exclude), refresh=refresh)


def names_of_copies(files: Mapping[str, str], folder: CollectionFolder) -> dict[str, str]:
    """Return the agreed rule of each rule that names a copy in a folder: a user may have read it there."""
    return {f"list:{folder.lists / file}": name for name, file in files.items() if list_of(name)}


# ---- in NATS ---------------------------------------------------------------------------------------------------------


async def share_files(
    wire: Wire, clock: Clock, collection: str, replicas: int, root: Root, config: Config,
    names: Sequence[str] | None = None,
) -> dict[str, str]:  # fmt: skip
    """Store the contents of files of this machine in NATS, by default of all named; return DIGEST/FILE by name."""
    names = named_files(config) if names is None else names
    shared = {}
    for name, (file, data) in (await asyncio.to_thread(read_files, root, config, names, clock)).items():
        digest = hashlib.sha256(data).hexdigest()
        if await _load(wire, clock, collection, digest, replicas) is None:
            await _store(wire, clock, f"{collection}.{digest}", replicas, data)
        shared[name] = f"{digest}/{file}"
    return shared


async def fetch_files(
    wire: Wire, clock: Clock, collection: str, replicas: int, files: Mapping[str, str], folder: CollectionFolder
) -> None:
    """Write the copies that a folder lacks. A topic becomes the topic of the folder's collection."""
    for name, file in files.items():
        path = path_of_copy(folder, file)
        with disk_errors(path, "read"):
            is_here = path.exists()
        if not is_here:
            data = await _load(wire, clock, collection, path.parent.name, replicas)
            if data is None:
                raise ClusterError(f"{name}: its content in NATS is lost or damaged; give the file again")
            await asyncio.to_thread(_write, path, data)
        if name == TOPIC:
            from teia.crawler.child.focus import FILE_NAME

            topic = folder.path / FILE_NAME
            with disk_errors(path, "read"):
                data = await asyncio.to_thread(path.read_bytes)
                is_same = topic.exists() and await asyncio.to_thread(topic.read_bytes) == data
            if not is_same:
                await asyncio.to_thread(write_atomically, topic, data)


def remove_unused_copies(folder: CollectionFolder, files: Mapping[str, str], running: Config | None = None) -> None:
    """Remove the copies that neither the agreed files nor the settings of the running crawl name."""
    used = " ".join(files.values()) + ("" if running is None else to_toml(running))
    with contextlib.suppress(OSError):  # tried again with the next change or start
        for path in folder.lists.iterdir() if folder.lists.is_dir() else ():
            if DIGEST.fullmatch(path.name) and path.name not in used:
                shutil.rmtree(path)


def _write(path: Path, data: bytes) -> None:
    with disk_errors(path, "created"):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, data)


async def _store(wire: Wire, clock: Clock, key: str, replicas: int, data: bytes) -> None:
    """Store a content in parts; the key itself, with their number, comes last."""
    bucket = await open_bucket(wire, clock, BUCKET, replicas)
    packed = await asyncio.to_thread(zlib.compress, data)
    parts = [packed[at : at + PART_BYTES] for at in range(0, len(packed), PART_BYTES)]
    for number, part in enumerate(parts):
        await wire.request(bucket.put(f"{key}.{number}", part))
    await wire.request(bucket.put(key, str(len(parts)).encode()))


async def _load(wire: Wire, clock: Clock, collection: str, digest: str, replicas: int) -> bytes | None:
    """Return the content with a digest; None if NATS does not have it whole."""
    from nats.js.errors import KeyNotFoundError

    bucket = await open_bucket(wire, clock, BUCKET, replicas)
    key, unpacker, data = f"{collection}.{digest}", zlib.decompressobj(), bytearray()
    try:
        entry = await wire.retry(lambda: bucket.get(key), clock)
        for number in range(int(entry.value or b"0")):
            part = (await wire.request(bucket.get(f"{key}.{number}"))).value or b""
            # At least 1 byte of room: 0 would be no limit.
            data += await asyncio.to_thread(unpacker.decompress, part, MAX_BYTES + 1 - len(data))
            if len(data) > MAX_BYTES:
                return None
    except (KeyNotFoundError, ValueError, zlib.error):
        return None
    return bytes(data) if hashlib.sha256(data).hexdigest() == digest else None


def check_shared(config: Config, files: Mapping[str, str]) -> dict[str, str]:
    """Return the files that the settings name; ConfigError if the content of one is not shared."""
    for name in named_files(config):
        if name not in files:
            raise ConfigError(f"{name}: other nodes do not have this file; name it in a command to a running node")
    return {name: files[name] for name in named_files(config)}


def without_lists(config: Config) -> Config:
    """Return the settings without rule lists, which were checked when they were read and may be on another machine."""
    scope = config.scope
    include, exclude = (tuple(rule for rule in rules if not list_of(rule)) for rules in (scope.include, scope.exclude))
    return replace(config, scope=replace(scope, include=include, exclude=exclude))
