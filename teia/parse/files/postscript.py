"""The processor of PostScript (C4): its text by Ghostscript, and the title of its comments.

PostScript is a program, so it runs in a process with nothing to reach. Ghostscript's own safe mode refuses files and
commands. Around it, the kernel limits processor time, memory, open files and the size of what it writes, and takes away
the network and other privileges where this user may do so; root's process runs as `nobody`. It ends with the child that
reads the document.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
from functools import lru_cache

from teia.lib.child_process import DEVNULL, ChildProcess, succeeds
from teia.parse.document import Document, Findings
from teia.parse.text.normal import one_line

CPU_S, LONGEST_S = 10, 30.0
MEMORY_BYTES = 512 * 2**20
MAX_TEXT_CHARS = 4_000_000
MAX_OUTPUT_BYTES = 4 * MAX_TEXT_CHARS
MAX_FILES = 64
MAX_TITLE_CHARS = 500
NOBODY = 65_534
NO_FOLDER = "/nonexistent"

PROGRAM = "gs"
_OPTIONS = (
    "-q", "-dSAFER", "-dNOPAUSE", "-dBATCH", "-sDEVICE=txtwrite", "-sstdout=%stderr", "-sOutputFile=%stdout", "-",
)  # fmt: skip
_COMMENT = re.compile(rb"^%%(Title|Author|For|Creator): *(.*?)\r?$", re.MULTILINE)
_HEAD_BYTES = 4_096


def read_postscript(document: Document) -> Findings:
    """Return the text of a PostScript document; one that cannot be read is kept in the archive and says why."""
    comments = _comments(document.payload[:_HEAD_BYTES])
    title, author = (one_line(comments.get(name, ""), MAX_TITLE_CHARS) for name in ("Title", "Author"))
    if any(shutil.which(each) is None for each in (PROGRAM, "prlimit")):
        return Findings(title=title, author=author, metadata={"unread": "Ghostscript is not installed"})
    text, problem = _run(document.payload)
    metadata = {"unread": f"the end, because {problem}"} if problem else {}
    is_cut = len(text) > MAX_TEXT_CHARS or bool(problem)
    return Findings(
        title=title,
        author=author,
        text=text[:MAX_TEXT_CHARS],
        metadata=metadata,
        truncated=("text",) if is_cut else (),
    )


def _comments(head: bytes) -> dict[str, str]:
    """Return the structuring comments of a document; texts in them may be in brackets."""
    found = {name.decode(): value.strip().decode("latin-1") for name, value in reversed(_COMMENT.findall(head))}
    return {name: value[1:-1] if value[:1] == "(" and value[-1:] == ")" else value for name, value in found.items()}


def _run(payload: bytes) -> tuple[str, str]:
    """Run the program; return the text of its pages, and why it did not come to its end."""
    with tempfile.TemporaryFile() as program, tempfile.TemporaryFile() as printed:
        program.write(payload)
        program.seek(0)
        command = (*_limits(), *_isolation(), PROGRAM, *_OPTIONS)
        # Nothing of our environment: a document can ask for it. Safe mode permits everything in the temporary folder.
        environment = {"PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8", "TMPDIR": NO_FOLDER}
        process = ChildProcess(
            command, stdin=program.fileno(), stdout=printed.fileno(), stderr=DEVNULL, env=environment
        )
        has_ended = process.end(LONGEST_S)
        printed.seek(0)
        text = printed.read(MAX_OUTPUT_BYTES).decode("utf-8", "replace")
    lines = (line.strip() for line in text.replace("\0", "").splitlines())
    problem = "" if process.status == 0 else _problem(process) if has_ended else f"it took more than {LONGEST_S:g} s"
    return "\n".join(filter(None, lines)), problem


def _problem(process: ChildProcess) -> str:
    status = process.status or 0
    # A program between may report a signal by its number.
    number = -status if status < 0 else status - 128
    if number in {signal.SIGXCPU, signal.SIGKILL}:
        return f"it needs more than {CPU_S} s"
    return "it has too much text" if number == signal.SIGXFSZ else "Ghostscript found an error in it"


def _limits() -> tuple[str, ...]:
    return (
        "prlimit", f"--cpu={CPU_S}", f"--data={MEMORY_BYTES}", f"--fsize={MAX_OUTPUT_BYTES}", f"--nofile={MAX_FILES}",
        "--core=0",
    )  # fmt: skip


@lru_cache(maxsize=1)
def _isolation() -> tuple[str, ...]:
    """Return the start of a command that takes away network and privileges, as far as this user may."""
    is_root = os.geteuid() == 0
    network = ("unshare", "--net") if is_root else ("unshare", "--user", "--map-current-user", "--net")
    user = (f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups") if is_root else ()
    # The kernel forgets with the user that a process ends with its parent, so it is told again.
    drop = ("setpriv", "--no-new-privs", *user, "setpriv", "--pdeathsig=KILL")
    for prefix in ((*network, *drop), drop):
        if succeeds((*prefix, "true")):
            return prefix
    return ()
