"""Every shard is asked at once, and nobody waits longer than a query may take (F8).

A shard that fails or is late is left out for the rest of the query, and the answer says so. A search that runs in
tantivy cannot be stopped, so it goes on in its thread; there are only so many threads, and what waits for one when the
time is over is not begun. Where there is only one shard it is waited for: without it there is no answer at all.

Questions that do not hang on each other are begun together, and their answers taken one after the other: over a network
what costs most is to wait, and each round of questions waits for the slowest shard. Those to one shard somewhere else
go there in one letter.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, cast

from teia.clock import Clock
from teia.search.shards import Shard

MAX_THREADS = 32
THREADS_A_SHARD = 2
LEAST_WAIT_S = 0.25
"""What shards that answer get for each further question when one that did not has used up the time of a query."""

logger = logging.getLogger(__name__)
Answer = TypeVar("Answer")


Shards: TypeAlias = Sequence[Shard] | Callable[[], Sequence[Shard]]
"""Those that there are; or who says which there are, where they come and go."""


class Gateway:
    """The shards, and the threads that ask them."""

    def __init__(self, shards: Shards, clock: Clock) -> None:
        self._shards = shards if callable(shards) else tuple(shards)
        threads = MAX_THREADS if callable(shards) else max(1, min(MAX_THREADS, THREADS_A_SHARD * len(shards)))
        self._clock = clock
        self._threads = ThreadPoolExecutor(threads, "search")
        self._logged: dict[str, str] = {}

    def turn(self, seconds: float) -> Turn:
        """Begin a query that may take so long."""
        shards = self._shards() if callable(self._shards) else self._shards
        return Turn(shards, self._threads, self._clock, self._clock.ticks_s() + seconds, self._logged)

    def close(self) -> None:
        """Let the threads go; a search that still runs ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)


_NOT_SENT: Future[Any] = Future()


@dataclass(slots=True)
class Pending(Generic[Answer]):
    """What was asked and is still to come, and what makes an answer of it. Before it is sent nothing can come."""

    finish: Callable[[Any], Answer]  # Any: octets of somewhere else, or already the answer
    future: Future[Any] = _NOT_SENT

    def taken(self) -> Answer:
        """The answer; waits for it."""
        return self.finish(self.future.result())


class Letter(Protocol):
    """Questions to a shard somewhere else. It has the methods of a shard, but each returns a `Pending`."""

    def send(self, left_s: Callable[[], float]) -> None:
        """Ask them all; `left_s` says how long may be waited for what has to be asked on top."""


class Remote(Protocol):
    """A shard somewhere else, which is written letters."""

    def letter(self) -> Letter: ...


class Underway(Generic[Answer]):
    """Questions that were begun; whoever needs the answers waits for them."""

    def __init__(self, take: Callable[[], dict[int, Answer]]) -> None:
        self._take = take

    def answers(self) -> dict[int, Answer]:
        """The answers by the number of the shard, of those that still answer; to be taken once."""
        return self._take()


class Turn:
    """One query: who still answers, and until when."""

    def __init__(
        self,
        shards: Sequence[Shard],
        threads: ThreadPoolExecutor,
        clock: Clock,
        until_s: float,
        logged: dict[str, str],
    ) -> None:
        """`logged` says what was logged last of each shard, so that one failure is not one line for every query."""
        self._logged = logged
        self._live = dict(enumerate(shards))
        self._threads = threads
        self._clock = clock
        self._until_s = until_s
        self._shards = tuple(shards)
        self._failed: dict[str, str] = {}
        self._letters: dict[int, Letter] = {}
        """Those that were not sent yet, by the number of the shard: they are when somebody waits for an answer."""

    @property
    def asked(self) -> int:
        """How many cells there are."""
        return sum(shard.cells for shard in self._shards)

    @property
    def answered(self) -> int:
        """How many of them were searched."""
        return sum(shard.cells - len(shard.left_out) for shard in self._live.values())

    @property
    def silent(self) -> dict[str, str]:
        """By the name of a shard, or of a cell: why it is left out."""
        return self._failed | {name: why for shard in self._live.values() for name, why in shard.left_out.items()}

    @property
    def has_failed(self) -> bool:
        """Whether a shard was left out."""
        return bool(self._failed)

    @property
    def left_s(self) -> float:
        return max(LEAST_WAIT_S, self._until_s - self._clock.ticks_s())

    def ask(self, call: Callable[[Shard], Answer]) -> dict[int, Answer]:
        """Ask all that still answer the one thing that `call` does; the answers by the number of the shard."""
        return self.ask_each(dict.fromkeys(self._live, call))

    def ask_each(self, calls: Mapping[int, Callable[[Shard], Answer]]) -> dict[int, Answer]:
        """Ask each its own question."""
        return self.begin_each(calls).answers()

    def begin(self, call: Callable[[Shard], Answer]) -> Underway[Answer]:
        """As `ask`, but wait for nobody yet. Where there is only one shard, it is asked when the answer is taken."""
        return self.begin_each(dict.fromkeys(self._live, call))

    def begin_each(self, calls: Mapping[int, Callable[[Shard], Answer]]) -> Underway[Answer]:
        """As `ask_each`, but wait for nobody yet."""
        wanted = {number: call for number, call in calls.items() if number in self._live}
        if len(self._shards) == 1:
            return Underway(partial(self._asked_here, wanted))
        asked = {number: self._begun(call, number) for number, call in wanted.items()}
        return Underway(partial(self._waited_for, asked))

    def _waited_for(self, asked: Mapping[int, Pending[Answer]]) -> dict[int, Answer]:
        for letter in self._letters.values():
            letter.send(lambda: self.left_s)
        self._letters.clear()
        wait([pending.future for number, pending in asked.items() if number in self._live], timeout=self.left_s)
        has_answered = [number for number, pending in asked.items() if self._has_answered(number, pending.future)]
        return self._asked_here({number: partial(_finished, asked[number]) for number in has_answered})

    def _begun(self, call: Callable[[Shard], Answer], number: int) -> Pending[Answer]:
        """Begin to ask: of a shard somewhere else, by writing the question down; of one here, in a thread."""
        shard = self._live[number]
        if not hasattr(shard, "letter"):  # `isinstance` of a protocol takes longer than many a question
            return Pending(_as_it_is, self._threads.submit(call, shard))
        if number not in self._letters:
            self._letters[number] = cast("Remote", shard).letter()
        return cast("Pending[Answer]", call(cast("Shard", self._letters[number])))

    def _asked_here(self, calls: Mapping[int, Callable[[Shard], Answer]]) -> dict[int, Answer]:
        """Ask in this very thread."""
        answers: dict[int, Answer] = {}
        for number, call in calls.items():
            if number not in self._live:
                continue
            try:
                answers[number] = call(self._live[number])
            except Exception as error:  # noqa: BLE001  # whatever it is, it is this shard's failure
                self._leave_out(number, _why(error))
        return answers

    def _has_answered(self, number: int, future: Future[Any]) -> bool:
        if number not in self._live:  # it failed at another question that was begun together with this one
            future.cancel()
            return False
        if not future.done():
            future.cancel()
            self._leave_out(number, "did not answer in time")
            return False
        error = future.exception()
        if error is not None:
            self._leave_out(number, _why(error))
            return False
        return True

    def _leave_out(self, number: int, why: str) -> None:
        name = self._live.pop(number).name
        self._failed[name] = why
        if self._logged.get(name) != why:
            self._logged[name] = why
            logger.warning("shard left out name=%s why=%s", name, why)


def _as_it_is(answer: Answer) -> Answer:
    return answer


def _finished(pending: Pending[Answer], _: Shard) -> Answer:
    return pending.taken()


def _why(error: BaseException) -> str:
    """A failure in one line, as it goes into the answer."""
    return str(error).partition("\n")[0][:200] or type(error).__name__
