"""Reader of captures in killable children, for threads of the web interface.

The children live in a thread of their own with its own event loop, because a zygote dies with the thread that started
it. It is started when the first capture is read, which takes a third of a second, and kept.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock, Thread

from teia.clock import Clock
from teia.crawler.child.read_copy import (
    CaptureRequest,
    CaptureTemplate,
    CaptureText,
    capture_reader,
    decode_template,
    decode_text,
    encode,
)
from teia.errors import ParseError
from teia.lib.message import Message
from teia.parse.children.child import LostAnswer
from teia.parse.children.pool import ChildLimits, ChildPool

CHILDREN = 2
LIMITS = ChildLimits(cpu_s=8.0, wall_s=18.0)
WAIT_S = 40.0
"""Longest wait in seconds for an answer, retries and other readers' captures included."""

MAX_WAITING = 64
CACHE_SIZE, MAX_CACHED_BYTES = 16, 1 << 20
"""Size of the cache of answers: a capture is requested twice, for the page around it and for its frame."""


class CaptureReader:
    """Reads captures; threads may share it. ParseError for a capture that no child survives."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._pool: ChildPool | None = None
        self._cache: OrderedDict[bytes, bytes] = OrderedDict()

    def text(self, url: str, head: bytes, body: bytes) -> CaptureText:
        """Return the text of a capture."""
        return decode_text(self._cached_answer(CaptureRequest("text", url, head, body)))

    def safe_template(self, url: str, head: bytes, body: bytes, *, is_style: bool = False) -> CaptureTemplate:
        """Return a page, or a style sheet, made safe to display."""
        return decode_template(self._cached_answer(CaptureRequest("style" if is_style else "page", url, head, body)))

    def close(self) -> None:
        """End the children."""
        # Taken out under the lock: a reader that comes now starts new children.
        with self._lock:
            loop, thread, pool = self._loop, self._thread, self._pool
            self._loop = self._thread = self._pool = None
        if loop is None or thread is None:
            return
        if pool is not None:
            asyncio.run_coroutine_threadsafe(pool.close(), loop).result(WAIT_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    def _cached_answer(self, request: CaptureRequest) -> bytes:
        payload = encode(request)
        # The whole request is the key; its digest is short.
        name = hashlib.sha256(payload).digest()
        with self._lock:
            if name in self._cache:
                return self._cache[name]
        answer = self._answer(request, payload)
        if len(answer) <= MAX_CACHED_BYTES:
            with self._lock:
                self._cache[name] = answer
                if len(self._cache) > CACHE_SIZE:
                    self._cache.popitem(last=False)
        return answer

    def _answer(self, request: CaptureRequest, payload: bytes) -> bytes:
        loop, pool = self._ensure_running()
        future: Future[bytes | LostAnswer] = Future()
        # The pool belongs to its loop: other threads only post to it.
        loop.call_soon_threadsafe(self._submit, pool, payload, future)
        try:
            answer = future.result(WAIT_S)
        except TimeoutError:
            raise ParseError(Message("the capture of {url} could not be read in time", url=request.url)) from None
        if isinstance(answer, LostAnswer):
            raise ParseError(Message("the capture of {url} cannot be read ({why})", url=request.url, why=answer.reason))
        return answer

    @staticmethod
    def _submit(pool: ChildPool, payload: bytes, future: Future[bytes | LostAnswer]) -> None:
        done: Callable[[bytes | LostAnswer], None] = future.set_result
        if pool.waiting >= MAX_WAITING:
            done(LostAnswer(Message("too many captures are being read")))
        else:
            pool.submit(payload, done=done)

    def _ensure_running(self) -> tuple[asyncio.AbstractEventLoop, ChildPool]:
        with self._lock:
            if self._loop is None or self._pool is None:
                self._loop = asyncio.new_event_loop()
                self._thread = Thread(target=self._loop.run_forever, name="copies", daemon=True)
                self._thread.start()
                self._pool = ChildPool(capture_reader, CHILDREN, LIMITS, self._clock)
                asyncio.run_coroutine_threadsafe(self._pool.start(), self._loop).result(WAIT_S)
            return self._loop, self._pool
