"""Questions about rows of the fetch log that are in no file yet."""

from __future__ import annotations

import sqlite3

import pytest

from teia.store.pending import PendingLog


def test_an_interrupt_inside_a_function_of_sqlite_is_an_interrupt() -> None:
    """A Ctrl-C while a crawl was audited at its end was reported as a fault of teia."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with PendingLog([]) as log:
        log._db.create_function("least", -1, interrupted)
        with pytest.raises(KeyboardInterrupt):
            log.query("SELECT least(1, 2)")


def test_a_wrong_question_is_an_error() -> None:
    with PendingLog([]) as log, pytest.raises(sqlite3.OperationalError, match="no such table"):
        log.query("SELECT host FROM nowhere")
