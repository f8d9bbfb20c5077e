"""Store for snapshots and archive files of a cluster: whole files, each under a name that is never used twice.

`nats` is the object store of the cluster's NATS servers, over a connection of its own: half a megabyte at a time must
not delay a session's renewal. Anything else is a path as fsspec reads it: a folder that all nodes share,
`s3://bucket/teia` (with s3fs installed), and so on. Such a path is better for large cells and for archives.

A name counts only when a cell's log names it (snapshots.py). So nothing here has to be atomic: half a file under a name
without a pointer is an orphan and is swept. The reader checks the content.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from teia.clock import Clock
from teia.cluster.nats.wire import Wire
from teia.durable import disk_errors, replacing
from teia.errors import ClusterError, ConfigError, MissingComponent

if TYPE_CHECKING:
    from nats.js.object_store import ObjectStore

NATS = "nats"
CHUNK_BYTES = 512 * 1024
LEAST_S = 30.0
LEAST_BYTES_PER_S = 256 * 1024
"""Slowest transfer rate: an object that is slower, after half a minute, is given up for now."""

INCOMPLETE_S = 1_800.0
"""Time without additions after which the parts of an incomplete object are swept."""

Result = TypeVar("Result")
_log = logging.getLogger(__name__)


class ObjectsAway(ClusterError):
    """The store cannot be used now; it may come back."""


class ObjectGone(ClusterError):
    """There is no such object, or not all of it."""


class Objects(Protocol):
    """A store for whole files. `ObjectsAway` while it cannot be used, `ObjectGone` for a missing object."""

    async def put(self, name: str, file: Path) -> None:
        """Store a file; it is durable when this returns."""

    async def get(self, name: str, file: Path) -> None:
        """Download an object into a file, which is created or replaced."""

    async def names(self, prefix: str) -> list[str]:
        """Return the names with a prefix."""

    async def delete(self, name: str, *, must_erase: bool = False) -> None:
        """Remove an object; a missing one is no error. With `must_erase`, its bytes leave the disks at once."""

    async def close(self) -> None:
        """Close the connection."""


class NatsObjects:
    """A bucket of the NATS object store; see the module."""

    def __init__(self, wire: Wire, clock: Clock, bucket: str, replicas: int) -> None:
        self._wire, self._clock = wire, clock
        self._bucket, self._replicas = bucket, replicas
        self._store: ObjectStore | None = None
        self._incomplete: dict[str, int] = {}
        self._sweep_at = clock.ticks_s()

    async def put(self, name: str, file: Path) -> None:
        from nats.js import api

        store = await self._open_store()
        size = await asyncio.to_thread(lambda: file.stat().st_size)
        meta = api.ObjectMeta(options=api.ObjectMetaOptions(max_chunk_size=CHUNK_BYTES))
        with disk_errors(file, "read"):
            stream = await asyncio.to_thread(file.open, "rb")
        with stream:
            await self._with_timeout(lambda: store.put(name, stream, meta), name, size)

    async def get(self, name: str, file: Path) -> None:
        store = await self._open_store()
        info = await self._with_timeout(lambda: store.get_info(name), name, 0)
        with disk_errors(file, "written"):
            stream = await asyncio.to_thread(file.open, "wb")
            with stream:
                await self._with_timeout(lambda: store.get(name, writeinto=stream), name, info.size or 0)

    async def names(self, prefix: str) -> list[str]:
        return sorted(name for name in await self._all_names() if name.startswith(prefix))

    async def delete(self, name: str, *, must_erase: bool = False) -> None:
        """Remove an object's name, then its parts. The client's own method leaves a tombstone of each for ever.

        A server leaves what is purged in its files until it compacts them; what is deleted one by one it overwrites.
        """
        store, js = await self._open_store(), self._wire.js
        try:
            info = await self._with_timeout(lambda: store.get_info(name), name, 0)
        except ObjectGone:
            return
        if must_erase:
            await self._erase(f"$O.{self._bucket}.C.{info.nuid}")
        # The name first: without a name the parts are garbage, which `_sweep_incomplete` removes.
        for subject in (self._meta_subject(name), f"$O.{self._bucket}.C.{info.nuid}"):
            await self._wire.request(js.purge_stream(f"OBJ_{self._bucket}", subject=subject))
        await self._sweep_incomplete()

    async def _erase(self, subject: str) -> None:
        """Delete the messages of a subject one by one."""
        from nats.js.errors import NotFoundError

        stream, seq = f"OBJ_{self._bucket}", 1
        with contextlib.suppress(NotFoundError):
            while True:
                found = await self._wire.request(self._wire.js.get_msg(stream, seq, subject=subject, next=True))
                seq = found.seq or seq
                await self._wire.request(self._wire.js.delete_msg(stream, seq))

    async def close(self) -> None:
        await self._wire.end()

    def _meta_subject(self, name: str) -> str:
        return f"$O.{self._bucket}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"

    async def _open_store(self) -> ObjectStore:
        from nats.js import api
        from nats.js.errors import BucketNotFoundError

        if self._store is None:
            js, bucket = self._wire.js, self._bucket
            config = api.ObjectStoreConfig(bucket=bucket, replicas=self._replicas)
            try:
                self._store = await self._wire.retry(lambda: js.object_store(bucket), self._clock)
            except BucketNotFoundError:
                self._store = await self._wire.retry(lambda: js.create_object_store(bucket, config), self._clock)
        return self._store

    async def _subjects(self, kind: str) -> dict[str, int]:
        """Return the last tokens of the bucket's subjects of a kind (M: names, C: parts), with their message counts."""
        await self._open_store()
        mask = f"$O.{self._bucket}.{kind}.*"
        info = await self._wire.request(self._wire.js.stream_info(f"OBJ_{self._bucket}", subjects_filter=mask))
        return {each.rsplit(".", 1)[1]: count for each, count in (info.state.subjects or {}).items()}

    async def _all_names(self) -> list[str]:
        return [base64.urlsafe_b64decode(each).decode() for each in await self._subjects("M")]

    async def _sweep_incomplete(self) -> None:
        """Purge parts of objects whose upload never ended, when nothing was added for `INCOMPLETE_S`."""
        now = self._clock.ticks_s()
        if now < self._sweep_at:
            return
        self._sweep_at = now + INCOMPLETE_S
        store, parts = await self._open_store(), await self._subjects("C")
        whole = set()
        for name in await self._all_names():
            with contextlib.suppress(ObjectGone):
                whole.add((await self._with_timeout(functools.partial(store.get_info, name), name, 0)).nuid)
        incomplete = {each: count for each, count in parts.items() if each not in whole}
        # As many parts as at the last look: nothing was added since.
        for each in [each for each, count in incomplete.items() if self._incomplete.get(each) == count]:
            _log.info("object store: removed parts of incomplete uploads parts=%d", incomplete.pop(each))
            subject = f"$O.{self._bucket}.C.{each}"
            await self._wire.request(self._wire.js.purge_stream(f"OBJ_{self._bucket}", subject=subject))
        self._incomplete = incomplete

    async def _with_timeout(self, request: Callable[[], Awaitable[Result]], name: str, size: int) -> Result:
        """Wait for a transfer as long as its size allows; the client's own waits may never end."""
        from nats import errors
        from nats.js import errors as js_errors

        try:
            async with asyncio.timeout(LEAST_S + size / LEAST_BYTES_PER_S):
                return await request()
        except (js_errors.ObjectNotFoundError, js_errors.ObjectDeletedError, js_errors.DigestMismatchError) as error:
            raise ObjectGone(f"{name} is missing in the object store, or damaged") from error
        except (TimeoutError, errors.Error, js_errors.Error, OSError) as error:
            raise ObjectsAway(
                f"the object store of NATS is not available now ({str(error) or type(error).__name__})"
            ) from error


class FileObjects:
    """A folder of any file system that fsspec knows."""

    def __init__(self, url: str, collection: str) -> None:
        self._fs, root = _file_system(url)
        self._folder = f"{root.rstrip('/')}/{collection}"
        self._url = url
        self._is_local = "file" in _protocols(self._fs)

    async def put(self, name: str, file: Path) -> None:
        await self._run(self._put, name, file)

    async def get(self, name: str, file: Path) -> None:
        await self._run(self._fs.get_file, f"{self._folder}/{name}", str(file))

    async def names(self, prefix: str) -> list[str]:
        return await self._run(self._names, prefix)

    async def delete(self, name: str, *, must_erase: bool = False) -> None:  # noqa: ARG002
        try:
            await self._run(self._fs.rm_file, f"{self._folder}/{name}")
        except ObjectGone:
            return

    async def close(self) -> None:
        return

    def _put(self, name: str, file: Path) -> None:
        self._fs.makedirs(self._folder, exist_ok=True)
        if not self._is_local:
            self._fs.put_file(str(file), f"{self._folder}/{name}")
            return
        with file.open("rb") as source, replacing(Path(self._folder) / name) as target:  # synced, as other stores do it
            while some := source.read(1 << 20):
                target.write(some)

    def _names(self, prefix: str) -> list[str]:
        # Other nodes write into the same folder.
        self._fs.invalidate_cache()
        if not self._fs.exists(self._folder):
            return []
        found = [str(path).rstrip("/").rsplit("/", 1)[-1] for path in self._fs.ls(self._folder, detail=False)]
        return sorted(name for name in found if name.startswith(prefix))

    async def _run(self, function: Callable[..., Result], *arguments: object) -> Result:
        """Run a function in a thread; turn every error of a file system into a message."""
        try:
            return await asyncio.to_thread(function, *arguments)
        except FileNotFoundError as error:
            raise ObjectGone(f"{self._url}: {arguments[0]} not found") from error
        except Exception as error:  # any error of a third-party file system
            raise ObjectsAway(f"{self._url} is not available now ({str(error) or type(error).__name__})") from error


def _file_system(url: str) -> tuple[Any, str]:  # Any: fsspec has no types
    try:
        import fsspec.core
    except ImportError as error:
        raise MissingComponent("fsspec is not installed; install it with `pip install 'teia[cluster]'`") from error
    try:
        found, root = fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise MissingComponent(f"cluster.snapshots = {url!r}: {error}") from error
    except Exception as error:
        raise ConfigError(
            f"cluster.snapshots = {url!r}: must be nats, or a path that fsspec can read ({error})"
        ) from error
    return found, str(root)


def _protocols(fs: Any) -> tuple[str, ...]:  # Any: fsspec has no types
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)


async def open_objects(
    where: str, collection: str, clock: Clock, replicas: int, connect: Callable[[], Awaitable[Wire]]
) -> Objects | None:
    """Open the store that `cluster.snapshots` names; None if it names none. `connect` makes a separate connection."""
    if where == NATS:
        # A bucket's name may not have the `=` of an isolated node's collection.
        return NatsObjects(await connect(), clock, f"snap_{collection.replace('=', '-')}", replicas)
    return FileObjects(where, collection) if where else None
