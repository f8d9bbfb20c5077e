"""End of a command: its exit status, and its line or JSON object after a failure.

    0    done; also when the reader of a pipe left early (`teia config | head -3`): it has what it wanted
    1    failed, with one line on standard error that a person can act on
    2    wrong usage
    130  interrupted with Ctrl-C

A `TeiaError` carries its line and its status. Anything else is a fault of teia: one line that says what to report, and
the traceback only with `--debug`. With `--json` a failure is an object as well: {"error", "message", "next"}.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from teia.cli.output import print_json
from teia.errors import MissingComponent, TeiaError, UsageError

DONE = 0
FAILED = 1
WRONG_USAGE = 2
INTERRUPTED = 130

EXTRAS = {"matplotlib": ("matplotlib", "lab")}
"""Top-level modules that come with an extra: the package that holds them and the extra that brings it."""


class Interrupted(Exception):
    """Ctrl-C that no command has handled."""


class ReaderLeft(Exception):
    """The reader of standard output has closed it."""


def exit_status(command: Callable[[], object], words: Sequence[str]) -> int:
    """Run a command and return the status to leave with; `words` are those of the command line."""
    try:
        status = _run(command)
        # Here and not at the end of the process: a closed pipe must raise where it is handled.
        sys.stdout.flush()
    except (ReaderLeft, BrokenPipeError):
        _discard_stdout()
        return DONE
    except (Interrupted, KeyboardInterrupt):
        return _end(Interrupted(), "interrupted", INTERRUPTED, words)
    except TeiaError as error:
        return _end(error, str(error), error.exit_status, words)
    except ModuleNotFoundError as error:
        return _end(*_missing_extra(error), FAILED, words)
    except OSError as error:
        return _end(error, _os_line(error), FAILED, words)
    except Exception as error:  # noqa: BLE001  # for any other fault, too, the user gets a line and not a traceback
        return _end(error, _fault_line(error), FAILED, words)
    # typer has printed its own message; a program still gets its object.
    if status == WRONG_USAGE and "--json" in words:
        _print_failure(UsageError("wrong usage; see the message on standard error"))
    return status


def _run(command: Callable[[], object]) -> int:
    try:
        command()
    except SystemExit as stop:
        # As Python has it: None is success, and a text is a failure.
        return stop.code if isinstance(stop.code, int) else DONE if stop.code is None else FAILED
    return DONE


def _end(error: Exception, line: str, status: int, words: Sequence[str]) -> int:
    # Looked up in the words, because an error may come before the options are parsed.
    if "--debug" in words:
        import traceback

        traceback.print_exception(error)
    print(f"teia: {line}", file=sys.stderr)
    if "--json" in words:
        _print_failure(error, line)
    return status


def _print_failure(error: Exception, line: str = "") -> None:
    line = line or str(error)
    # Messages have the form `problem; remedy`.
    name = error.name if isinstance(error, TeiaError) else type(error).__name__
    print_json({"error": name, "message": line, "next": line.partition("; ")[2]})


def _missing_extra(error: ModuleNotFoundError) -> tuple[Exception, str]:
    """Return an error that says how to install a missing extra; any other missing module is a bug of teia."""
    package, extra = EXTRAS.get((error.name or "").partition(".")[0], ("", ""))
    if not package:
        return error, _fault_line(error)
    missing = MissingComponent(f"{package} is not installed; install it with pip install 'teia[{extra}]'")
    missing.__cause__ = error
    return missing, str(missing)


def _os_line(error: OSError) -> str:
    """`out/REPORT.md: Permission denied`: what the machine refused, and where."""
    why = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {why}" if error.filename else why


def _fault_line(error: Exception) -> str:
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""  # noqa: PTH119
    what = " ".join(f"{type(error).__name__}: {error}".split())
    return f"unexpected {what}{where}; this is a bug in teia: run `teia --debug …` again and report the output"


def _discard_stdout() -> None:
    """Send what is still buffered nowhere, or Python complains about the closed pipe while it shuts down."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
