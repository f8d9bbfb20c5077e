"""Parallel requests to all shards, within a query's time limit (F8).

A shard that fails or is late is left out for the rest of the query, and the answer says so. A search that runs in
tantivy cannot be stopped, so it continues in its thread; the number of threads is limited, and a request that still
waits for a thread at the deadline is not started. A single shard is waited for: without it there is no answer at
all.

Requests that do not depend on each other are started together, and their answers are read one after the other: over
a network the waiting costs most, and each round of requests waits for the slowest shard. Requests to one remote
shard travel in one message (`ShardRequests`).
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, cast

from teia.clock import Clock
from teia.search.rank.rows import Rows
from teia.search.serve.shards import Shard

MAX_THREADS = 32
THREADS_PER_SHARD = 2
MIN_WAIT_S = 0.25
"""Time that answering shards get for each further request when a silent one has used up the query's time."""

logger = logging.getLogger(__name__)
Answer = TypeVar("Answer")


Shards: TypeAlias = Sequence[Shard] | Callable[[], Sequence[Shard]]
"""The shards, or a function that returns the present ones, where they are added and removed."""


class Gateway:
    """The shards, and the threads that send them requests."""

    def __init__(self, shards: Shards, clock: Clock) -> None:
        self._shards = shards if callable(shards) else tuple(shards)
        threads = MAX_THREADS if callable(shards) else max(1, min(MAX_THREADS, THREADS_PER_SHARD * len(shards)))
        self._clock = clock
        self._threads = ThreadPoolExecutor(threads, "search")
        self._logged: dict[str, str] = {}

    def start_query(self, seconds: float) -> QueryFanOut:
        """Begin a query that may take this long."""
        shards = self._shards() if callable(self._shards) else self._shards
        return QueryFanOut(shards, self._threads, self._clock, self._clock.ticks_s() + seconds, self._logged)

    def close(self) -> None:
        """Shut the threads down; a search that still runs ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)


_NOT_SENT: Future[Any] = Future()


@dataclass(slots=True)
class PendingAnswer(Generic[Answer]):
    """A request whose answer is still to come, and the decoder of its answer. Before it is sent nothing can come."""

    decode: Callable[[Any], Answer]  # Any: bytes of a remote shard, or already the answer
    future: Future[Any] = _NOT_SENT

    def result(self) -> Answer:
        """Wait for the answer and return it."""
        return self.decode(self.future.result())


class ShardRequests(Protocol):
    """Requests to a remote shard. It has the methods of a shard, but each returns a `PendingAnswer`."""

    def send(self, left_s: Callable[[], float]) -> None:
        """Send all requests; `left_s` returns the time left for follow-up requests."""


class BatchingShard(Protocol):
    """A shard on another machine, which receives requests in batches."""

    def start_batch(self) -> ShardRequests: ...


class StartedRequests(Generic[Answer]):
    """Requests that were started; the caller waits for the answers when it needs them."""

    def __init__(self, collect: Callable[[], dict[int, Answer]]) -> None:
        self._collect = collect

    def collect(self) -> dict[int, Answer]:
        """Return the answers by shard number, from the shards that still answer; to be called once."""
        return self._collect()


class QueryFanOut:
    """One query: the shards that still answer, and the deadline."""

    def __init__(
        self,
        shards: Sequence[Shard],
        threads: ThreadPoolExecutor,
        clock: Clock,
        until_s: float,
        logged: dict[str, str],
    ) -> None:
        """Begin a query. `logged` holds the last log entry of each shard, so that a failure is logged once."""
        self._logged = logged
        self._live = dict(enumerate(shards))
        self._threads = threads
        self._clock = clock
        self._until_s = until_s
        self._shards = tuple(shards)
        self._failed: dict[str, str] = {}
        self._batches: dict[int, ShardRequests] = {}
        """Batches that were not sent yet, by shard number: they are sent when a caller waits for an answer."""

    @property
    def cells(self) -> int:
        """Number of cells."""
        return sum(shard.cells for shard in self._shards)

    @property
    def answered_cells(self) -> int:
        """Number of cells that were searched."""
        return sum(shard.cells - len(shard.omitted_cells) for shard in self._live.values())

    @property
    def omitted(self) -> dict[str, str]:
        """Reasons why shards or cells are left out, by name."""
        return self._failed | {name: why for shard in self._live.values() for name, why in shard.omitted_cells.items()}

    @property
    def has_failed(self) -> bool:
        """True if a shard was left out."""
        return bool(self._failed)

    @property
    def left_s(self) -> float:
        return max(MIN_WAIT_S, self._until_s - self._clock.ticks_s())

    def query_all(self, call: Callable[[Shard], Answer]) -> dict[int, Answer]:
        """Send the request `call` to all shards that still answer; return the answers by shard number."""
        return self.start_all(call).collect()

    def start_all(self, call: Callable[[Shard], Answer]) -> StartedRequests[Answer]:
        """Like `query_all`, without waiting. A single shard is requested when the answer is read."""
        return self.start_each(dict.fromkeys(self._live, call))

    def start_each(self, calls: Mapping[int, Callable[[Shard], Answer]]) -> StartedRequests[Answer]:
        """Send each shard its own request, without waiting."""
        wanted = {number: call for number, call in calls.items() if number in self._live}
        # One shard needs no thread, and is waited for: without it there is no answer.
        if len(self._shards) == 1:
            return StartedRequests(partial(self._run_here, wanted))
        requests = {number: self._start(call, number) for number, call in wanted.items()}
        return StartedRequests(partial(self._wait_for, requests))

    def start_keys(
        self, keys: Mapping[int, Sequence[int]], call: Callable[[Shard, Sequence[int]], Answer]
    ) -> StartedRequests[Answer]:
        """Like `start_each`, with the same request about each shard's own keys."""
        return self.start_each({number: partial(_about_keys, call, some) for number, some in keys.items()})

    def _wait_for(self, requests: Mapping[int, PendingAnswer[Answer]]) -> dict[int, Answer]:
        # All requests begun since the last wait leave now, one message a shard.
        for batch in self._batches.values():
            batch.send(lambda: self.left_s)
        self._batches.clear()
        # Late shards are not waited for; `_has_answered` leaves them out of this query.
        wait([pending.future for number, pending in requests.items() if number in self._live], timeout=self.left_s)
        has_answered = [number for number, pending in requests.items() if self._has_answered(number, pending.future)]
        return self._run_here({number: partial(_result, requests[number]) for number in has_answered})

    def _start(self, call: Callable[[Shard], Answer], number: int) -> PendingAnswer[Answer]:
        """Start a request: to a remote shard, by adding it to its batch; to a local one, in a thread."""
        shard = self._live[number]
        if not hasattr(shard, "start_batch"):  # `isinstance` of a protocol takes longer than many requests
            return PendingAnswer(lambda answer: answer, self._threads.submit(call, shard))
        if number not in self._batches:
            self._batches[number] = cast("BatchingShard", shard).start_batch()
        return cast("PendingAnswer[Answer]", call(cast("Shard", self._batches[number])))

    def _run_here(self, calls: Mapping[int, Callable[[Shard], Answer]]) -> dict[int, Answer]:
        """Run the calls in this thread."""
        answers: dict[int, Answer] = {}
        for number, call in calls.items():
            if number not in self._live:
                continue
            try:
                answers[number] = call(self._live[number])
            except Exception as error:  # noqa: BLE001  # any exception is this shard's failure
                self._omit(number, _error_text(error))
        return answers

    def _has_answered(self, number: int, future: Future[Any]) -> bool:
        if number not in self._live:  # it failed at another request that was started together with this one
            future.cancel()
            return False
        # `cancel` stops a request that still waits for a thread; one that runs continues and is ignored.
        if not future.done():
            future.cancel()
            self._omit(number, "no response in time")
            return False
        error = future.exception()
        if error is not None:
            self._omit(number, _error_text(error))
            return False
        return True

    def _omit(self, number: int, why: str) -> None:
        name = self._live.pop(number).name
        self._failed[name] = why
        # The same failure is logged once, not with every query.
        if self._logged.get(name) != why:
            self._logged[name] = why
            logger.warning("shard omitted name=%s why=%s", name, why)


def _result(pending: PendingAnswer[Answer], _: Shard) -> Answer:
    return pending.result()


def _about_keys(call: Callable[[Shard, Sequence[int]], Answer], keys: Sequence[int], shard: Shard) -> Answer:
    return call(shard, keys)


def keys_by_shard(rows: Rows) -> dict[int, list[int]]:
    """Return the keys of rows, by shard number."""
    keys: dict[int, list[int]] = defaultdict(list)
    for shard, key in zip(rows["shard"].tolist(), rows["key"].tolist(), strict=True):
        keys[shard].append(key)
    return keys


def _error_text(error: BaseException) -> str:
    """Return a failure in one line, as it is shown in the answer."""
    return str(error).partition("\n")[0][:200] or type(error).__name__
