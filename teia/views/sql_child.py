"""SQL queries of users, run in a child process that is killed when it exceeds its limits (`teia sql`, the web).

DuckDB has limits of its own (store/sql.py), but a query can pass them: the result of a function is not counted until it
is complete, and nothing interrupts it meanwhile. `SELECT repeat('x', 2000000000)` took gigabytes and half a minute. So
the child has a memory limit (RLIMIT_DATA) and a time limit: the parent kills it, and its own alarm does if the parent
is gone.

The child reads the query from its standard input, and answers with lines of JSON: first a header, then rows. It makes
the rows, as plain values, because a little Arrow may hold a lot of them (a dictionary of one long text, a bit for each
truth value). Their size is counted in the child, where memory is bounded, and the parent reads no more than that. Only
the child imports what it needs, and neither imports numpy: pyarrow works without it, and starts in half the time.
"""

from __future__ import annotations

import json
import math
import os
import resource
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from teia.clock import WallClock
from teia.errors import QueryError, TeiaError
from teia.lib.child_process import DEVNULL, PIPE, ChildProcess
from teia.lib.entry_points import command_of
from teia.lib.message import Message, decoded, encoded
from teia.lib.scratch import ScratchFolder
from teia.store.fetchlog import Rows, json_value
from teia.store.root import Root, open_root

START_S = 20.0
"""Limit in seconds for a child to start on a busy machine; the query is timed from then on."""
GRACE_S = 2.0
"""Seconds after which a query that ignores an interrupt is killed."""
DUCKDB_SHARE = 0.6
"""Share of the memory for what DuckDB counts; the rest is for what it does not count, and for the answer."""
SLICE_ROWS = 64
"""Number of rows made at a time; an answer that is too long is refused between two such slices."""
NESTED_BYTES = 64
"""Size in bytes of a list or a struct beyond its JSON, which may be two characters."""
NESTED_DEPTH = 32
MAX_ERROR_CHARS = 500
NO_MEMORY = 3
"""Exit status of a child whose memory was used up; where C++ could not get any, it ends with SIGABRT."""


_LACKS_OF_MEMORY = ("Out of Memory", "bad_alloc", "bad allocation", "Cannot allocate memory", "can't start new thread")


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """Limits of one query."""

    seconds: float
    memory_bytes: int
    rows: int
    answer_bytes: int


TERMINAL_LIMITS = QueryLimits(120.0, 2 << 30, 10_000, 256 << 20)
"""Limits for a user of a terminal, who has the machine alone."""


@dataclass(frozen=True, slots=True)
class SqlAnswer:
    """An answer in plain values (`plain`), and the files of the log that could not be read for it."""

    rows: Rows
    damaged: tuple[str, ...]


def run_query(root: Root, collection: str, sql: str, limits: QueryLimits) -> SqlAnswer:
    """Answer one SELECT over a collection; QueryError explains a failure in a line."""
    request = json.dumps({"sql": sql, "bounds": asdict(limits)}).encode() + b"\n"
    with ScratchFolder("teia-sql-") as folder:  # ours, for a child that is killed removes nothing
        child = ChildProcess(
            command_of(main, str(root.path), collection),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            # The child imports the same teia, also from a checkout.
            env={**os.environ, "TMPDIR": str(folder.path), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        try:
            output = child.communicate(request, START_S + limits.seconds + GRACE_S)
        finally:
            child.end()  # also if it hangs
    if output is None or not output[0] or child.status != 0:
        raise QueryError(_failure_message(child.status or 1, limits))
    return _read(output[0])


def _failure_message(status: int, limits: QueryLimits) -> str:
    if status in {-signal.SIGALRM, -signal.SIGKILL}:
        return Message("the query took longer than {n:g} s; narrow it, e.g. with WHERE host = …", n=limits.seconds)
    if status not in {NO_MEMORY, -signal.SIGABRT, -signal.SIGSEGV}:
        return Message("the process of the query ended with status {n}", n=status)
    return Message(
        "the query needs more than {n} MiB of memory; narrow it, e.g. with WHERE host = …", n=limits.memory_bytes >> 20
    )


def _read(output: bytes) -> SqlAnswer:
    head, *lines = output.splitlines()
    reply = json.loads(head)
    if "error" in reply:
        raise QueryError(decoded(reply["error"]))
    rows = [row for line in lines for row in _SLICE.decode(line)]
    return SqlAnswer(Rows(tuple(reply["columns"]), rows, reply["cut"]), tuple(reply["damaged"]))


_SLICE = msgspec.json.Decoder(list[tuple[Any, ...]])


# ---- the child ------------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str]) -> int:
    """Answer the query on standard input about the collection of a root."""
    request = json.loads(sys.stdin.buffer.readline())
    sys.modules["numpy"] = None  # type: ignore[assignment]  # as if it were not there
    from teia.views import sql_tables  # noqa: F401  # before memory is bounded

    limits = QueryLimits(**request["bounds"])
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, limits.seconds + GRACE_S)
    _bound_memory(limits.memory_bytes)
    try:
        reply = _answer(Path(arguments[0]), arguments[1], request["sql"], limits)
    except TeiaError as error:
        reply = json.dumps({"error": encoded(error.message)}).encode() + b"\n"
    except MemoryError:  # of Arrow, too
        os._exit(NO_MEMORY)
    except Exception as error:  # noqa: BLE001  # the parent has no other way to learn of it
        if _is_lack_of_memory(str(error)):
            os._exit(NO_MEMORY)
        text = f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARS]
        reason = Message("the query failed: {error}; this is a bug in teia", error=text)
        reply = json.dumps({"error": encoded(reason)}).encode() + b"\n"
    sys.stdout.buffer.write(reply)
    sys.stdout.buffer.flush()
    os._exit(0)  # nothing is left to clean up


def _bound_memory(memory_bytes: int) -> None:
    """Limit memory to so much beyond what the modules took."""
    status = Path("/proc/self/status").read_text("ascii", "replace")
    # Memory that the imported modules took does not count.
    used_bytes = next(
        (int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmData:")), 1 << 30
    )
    resource.setrlimit(resource.RLIMIT_DATA, (used_bytes + memory_bytes, used_bytes + memory_bytes))
    # No core dump of gigabytes.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _answer(path: Path, collection: str, sql: str, limits: QueryLimits) -> bytes:
    from teia.views.sql_tables import sql_views

    clock = WallClock()
    until = clock.ticks_s() + limits.seconds

    def check_deadline() -> None:
        if clock.ticks_s() > until:
            raise QueryError(
                Message(
                    "stopped after {n:g} s: there are too many URLs; query `fetches`, or use teia sql", n=limits.seconds
                )
            )

    memory_mb = math.floor(limits.memory_bytes * DUCKDB_SHARE / 1e6)
    with sql_views(open_root(path), collection, sql, check_deadline, memory_mb) as log:
        try:
            table, cut = log.table(sql, limits.rows, limits.seconds, limits.answer_bytes)
        except QueryError as error:
            raise _plain_error(error, limits) from error
        head = {"columns": table.column_names, "cut": cut, "damaged": [str(each) for each in log.damaged]}
        return b"\n".join([json.dumps(head).encode(), *_lines(table, limits)])


def _lines(table: Any, limits: QueryLimits) -> list[bytes]:
    """Return the rows of a table as JSON, some in each line."""
    from teia.store.sql import too_long_message

    if any(_depth(kind) > NESTED_DEPTH for kind in table.schema.types):
        raise QueryError(f"the result has lists or structs nested more than {NESTED_DEPTH} levels deep; unnest them")
    is_nested = [kind.num_fields > 0 for kind in table.schema.types]
    lines, size = [], 0
    for start in range(0, table.num_rows, SLICE_ROWS):
        columns = [_values(column) for column in table.slice(start, SLICE_ROWS).columns]
        line = msgspec.json.encode(list(zip(*columns, strict=True)))
        nested = sum(_nested(column) for column, is_one in zip(columns, is_nested, strict=True) if is_one)
        size += len(line) + NESTED_BYTES * nested
        if size > limits.answer_bytes:
            raise QueryError(too_long_message(limits.answer_bytes))
        lines.append(line)
    return lines


def _values(column: Any) -> list[Any]:
    try:
        return [json_value(value) for value in column.to_pylist()]
    except (ValueError, OverflowError) as error:
        output = str(error).partition("\n")[0]
        raise QueryError(
            f"a value cannot be displayed; convert it to text with CAST(… AS VARCHAR): {output}"
        ) from error


def _depth(kind: Any) -> int:
    """Count how deep a type is nested; 1 for one that is not."""
    depth, level = 0, [kind]
    while level:
        depth += 1
        # Level by level instead of recursively: a type may be nested without end.
        level = [each.field(number).type for each in level for number in range(each.num_fields)]
    return depth


def _nested(column: list[Any]) -> int:
    """Count the lists and structs of a column."""
    count, left = 0, list(column)
    while left:
        value = left.pop()
        if isinstance(value, list | dict):
            count += 1
            left.extend(value.values() if isinstance(value, dict) else value)
    return count


def _is_lack_of_memory(message: str) -> bool:
    """Tell whether an error says that there is no more memory, or none for a thread."""
    return any(each in message for each in _LACKS_OF_MEMORY)


def _plain_error(error: QueryError, limits: QueryLimits) -> QueryError:
    """Rewrite DuckDB's memory error as a message about our limit."""
    from teia.store.sql import too_long_message

    message = str(error)
    if "maximum total string size" in message:
        return QueryError(too_long_message(limits.answer_bytes))
    if _is_lack_of_memory(message):
        return QueryError(_failure_message(NO_MEMORY, limits))
    return error
