"""Exceptions that teia raises, in one tree.

    TeiaError                 base; its text is one line that says what to do next
    ├── UsageError            the command was called wrongly (exit status 2)
    ├── ConfigError           a setting, a spec or a rule is wrong: names the key, the value and what is allowed
    │   └── WrongValue        the value of one setting is not allowed
    ├── MissingComponent      a program or an optional package is not installed; says how to get it
    ├── ParseError            the parse children cannot be started or kept alive
    ├── StoreError            the data folder cannot be used (locked, read-only, full, other format)
    │   ├── CorruptFile       a file of ours fails its check; carries the file's path
    │   └── DiskFull          no room left; unstored data is not counted as done, and a later try may succeed
    ├── IndexFailure          the search index cannot be opened or written
    ├── QueryError            a query that cannot be answered; carries a message for the person who typed it
    ├── ClusterError          no majority, session lost, stale owner
    └── LabError              a world or an experiment cannot be run

Failures of the web (time-outs, 404, bad charsets, lying headers) are not here: each is an `Outcome` recorded on the
URL. Exceptions of other libraries are translated once, at the seam where they enter, with `raise ... from`.
"""

from __future__ import annotations

import re
from pathlib import Path

from teia.lib.message import Message, message_of


class TeiaError(Exception):
    """A failure that a person can act on; `str(error)` is one line for the terminal."""

    exit_status = 1
    is_temporary = False
    """Whether the same may succeed later."""

    @property
    def name(self) -> str:
        """The name by which JSON tells this kind of error."""
        return type(self).__name__

    @property
    def message(self) -> str:
        """The text: a `Message`, if it was raised with one."""
        return message_of(self)


class UsageError(TeiaError):
    """The command line or a form requests something invalid; `field` is the field of the form, if it is one's."""

    exit_status = 2
    field = ""

    def __init__(self, message: str = "", field: str = "") -> None:
        super().__init__(message)
        self.field = field or self.field


class ConfigError(TeiaError):
    """A setting is unknown or has a value that is not allowed."""


class WrongValue(ConfigError):
    """The value of one setting is not allowed; `why` is the reason without the key and the value."""

    def __init__(self, key: str, value: object, why: str) -> None:
        # Bytes of a command line that are not UTF-8 are lone surrogates, which cannot be printed.
        shown = ascii(value) if re.search("[\ud800-\udfff]", str(value)) else repr(value)
        super().__init__(Message("{key} = {value}: {why}", key=key, value=shown, why=why))
        self.key, self.why = key, why

    @property
    def name(self) -> str:
        return ConfigError.__name__


class MissingComponent(TeiaError):
    """Something that must be installed first is not; the text says how."""


class ParseError(TeiaError):
    """The parse children as a whole cannot work."""


class StoreError(TeiaError):
    """The data folder cannot be used as it is."""


class CorruptFile(StoreError):
    """A file on disk fails its check."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path


class DiskFull(StoreError):
    """There is no room left on the disk; trying again later may succeed."""

    is_temporary = True


class IndexFailure(TeiaError):
    """The search index cannot be used."""


class QueryError(TeiaError):
    """A query cannot be answered; the text is for the user who typed it."""


class ClusterError(TeiaError):
    """The cluster refuses: session lost, stale owner, no majority."""


class LabError(TeiaError):
    """A synthetic world or an experiment cannot be run."""
