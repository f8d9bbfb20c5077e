"""SQL over the fetch log (`teia sql`, reports): read-only, fenced in, bounded.

A DuckDB in memory sees one view, `fetches` — the Parquet files that count and the rows not rolled out yet — and the
tables it is given (`pages`, `hosts`). A person's SQL may be anything that only reads. The fence is DuckDB's own, not a
word filter: one statement, of the kind SELECT by its parser; no file but the log's may be opened, nothing fetched,
loaded or attached; the settings are locked; memory, threads, rows and time are limited.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from teia.errors import QueryError
from teia.lib.closing import Closing
from teia.lib.message import Message
from teia.store.fetchlog import MAX_SQL_CHARS, LogPart, Rows, log_files
from teia.store.parquet import is_readable, table_of

BATCH_ROWS = 1_024
MAX_ERROR_CHARS = 1_000


class FetchLog(Closing):
    """The fetch log of one or several cells, as of its opening.

    `damaged` are files whose footer cannot be read; they are left out of answers.
    """

    def __init__(
        self, parts: Iterable[LogPart], tables: Mapping[str, Any] | None = None, memory_mb: int = 512, threads: int = 2
    ) -> None:
        # Part by part: the packed rows of one cell are in memory at a time, beside the columns of all.
        found, pending = list[Path](), [table_of(())]
        for part in parts:
            found += log_files(part)
            pending.append(table_of(part.pending))
            del part  # before the next one is made
        self.damaged = tuple(path for path in found if not is_readable(path))
        self._connection = duckdb.connect(
            ":memory:", config={"memory_limit": f"{memory_mb}MB", "threads": threads, "temp_directory": ""}
        )
        self._connection.register("pending_fetches", pa.concat_tables(pending))
        for name, table in (tables or {}).items():
            self._connection.register(name, table)
        self._restrict_access([path for path in found if path not in self.damaged])

    def _restrict_access(self, files: Sequence[Path]) -> None:
        """Let DuckDB open these files and nothing else, make the view, and lock the settings."""
        listed = "[" + ", ".join(_quoted(str(path.resolve())) for path in files) + "]"
        select = "SELECT * FROM pending_fetches"
        if files:
            parquet = f"read_parquet({listed}, union_by_name=true)"
            select = f"SELECT * FROM {parquet} UNION ALL BY NAME {select}"  # noqa: S608  # our own paths, quoted
        # The order matters: paths are allowed before access is shut, and after the lock no setting can be changed.
        for statement in (
            f"SET allowed_paths = {listed}" if files else "",
            "SET TimeZone = 'UTC'",
            "SET python_enable_replacements = false",
            "SET enable_external_access = false",
            f"CREATE VIEW fetches AS {select}",
            "SET lock_configuration = true",
        ):
            self._connection.execute(statement)

    def query(self, sql: str, max_rows: int = 10_000, timeout_s: float = 30.0) -> Rows:
        """Answer one SELECT; QueryError explains a failure in a line."""
        return rows_of(*self.table(sql, max_rows, timeout_s))

    def table(
        self, sql: str, max_rows: int = 10_000, timeout_s: float = 30.0, max_bytes: int | None = None
    ) -> tuple[Any, bool]:
        """Answer one SELECT as a table of Arrow, and say whether there are more rows than so many.

        An answer of more than `max_bytes` is refused while it comes; only its first rows were in memory then.
        """
        self._check(sql)
        # DuckDB has no time limit for a query; another thread interrupts it.
        alarm = threading.Timer(timeout_s, self._connection.interrupt)
        alarm.daemon = True
        alarm.start()
        try:
            reader = self._connection.sql(sql).limit(max_rows + 1).to_arrow_reader(BATCH_ROWS)
            found = _read(reader, max_bytes)
        except duckdb.InterruptException:
            raise QueryError(
                Message("the query took longer than {n:g} s; narrow it, e.g. with WHERE host = …", n=timeout_s)
            ) from None
        except duckdb.Error as error:
            raise QueryError(_explain(error)) from error
        finally:
            alarm.cancel()
        return found.slice(0, max_rows), found.num_rows > max_rows

    def add_table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Add a table beside `fetches`, looked up by its first column; another of that name is replaced."""
        by_column = zip(*rows, strict=True) if rows else ((),) * len(columns)
        self._connection.register(name, pa.table(dict(zip(columns, map(list, by_column), strict=True))))

    def _check(self, sql: str) -> None:
        if len(sql) > MAX_SQL_CHARS:
            raise QueryError(Message("the query is longer than {n} characters", n=MAX_SQL_CHARS))
        try:
            statements = self._connection.extract_statements(sql)
        except duckdb.Error as error:
            raise QueryError(_explain(error)) from error
        # DuckDB's own parser classifies the statement: a filter on words could be tricked by comments and quotes.
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise QueryError("only one read-only statement is allowed: SELECT … or WITH … SELECT …")

    def close(self) -> None:
        self._connection.close()
        pa.default_memory_pool().release_unused()


def rows_of(table: Any, cut: bool) -> Rows:
    """Return a table of Arrow as rows."""
    columns = [column.to_pylist() for column in table.columns]
    return Rows(tuple(table.column_names), list(zip(*columns, strict=True)), cut)


def _read(reader: Any, max_bytes: int | None) -> Any:
    batches, size = [], 0
    for batch in reader:
        size += batch.nbytes
        if max_bytes is not None and size > max_bytes:
            raise QueryError(too_long_message(max_bytes))
        batches.append(batch)
    return pa.Table.from_batches(batches, reader.schema)


def too_long_message(max_bytes: int) -> str:
    return Message(
        "the result is larger than {n} MiB; select fewer columns, or narrow it with LIMIT", n=max_bytes >> 20
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _explain(error: Exception) -> str:
    """Return DuckDB's message in one line: what is wrong, and its hints (`Did you mean`, `Candidate bindings`).

    It ends with the query and a mark below it, which the user sees anyway.
    """
    lines = [line.strip() for line in str(error).partition("\nLINE ")[0].splitlines()]
    return " ".join(filter(None, lines))[:MAX_ERROR_CHARS] or "the query failed"
