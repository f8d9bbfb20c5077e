"""Answers to repeated searches, kept while the index stays as it is (F11).

People repeat searches, and pages of results lead back to the first one. An answer is used again for `MAX_AGE_S` at
most: PageRank changes without a commit of the index. A commit of the index makes all answers void at once, so a page
that was indexed a moment ago is found. An answer that lacks a shard is not kept. Facts of the frontier, such as the
last visit and the probability that a page is unchanged, are read anew for every answer.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import replace
from threading import Lock

from teia.clock import Clock
from teia.search.show.results import Results

MAX_AGE_S = 60.0


class ResultsCache:
    """The last `most` answers of a search; threads may share it. `state` changes with every commit of the index."""

    def __init__(self, clock: Clock, state: Callable[[], Hashable], most: int) -> None:
        self._clock = clock
        self._state = state
        self._most = most
        self._lock = Lock()
        self._answers: OrderedDict[Hashable, tuple[float, Results]] = OrderedDict()
        self._answered_from: Hashable = None

    def answer(
        self, question: Hashable, search: Callable[[], Results], renew: Callable[[Results], Results] = lambda kept: kept
    ) -> Results:
        """Return the kept answer to a question, renewed, else search and keep what was found."""
        began = self._clock.ticks_s()
        # Read before the search: a commit meanwhile makes this answer void, though it may have seen the commit.
        state = self._state()
        with self._lock:
            kept_s, kept = self._find(question, state)
        if kept is not None and began - kept_s < MAX_AGE_S:
            renewed = renew(kept)
            return replace(renewed, took_ms=1000 * (self._clock.ticks_s() - began))
        found = search()
        if not found.is_partial:
            with self._lock:
                self._keep(question, state, began, found)
        return found

    def _find(self, question: Hashable, state: Hashable) -> tuple[float, Results | None]:
        if state != self._answered_from:
            self._answers.clear()
            self._answered_from = state
        if question not in self._answers:
            return 0.0, None
        self._answers.move_to_end(question)
        return self._answers[question]

    def _keep(self, question: Hashable, state: Hashable, began: float, found: Results) -> None:
        if state == self._answered_from:
            self._answers[question] = began, found
            self._answers.move_to_end(question)
            while len(self._answers) > self._most:
                self._answers.popitem(last=False)
