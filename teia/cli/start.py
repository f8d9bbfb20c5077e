"""The way in: `teia` and `python -m teia`.

A plain `teia search` is run at once (read/run_search.py). Everything else goes to the tree of commands in main.py,
whose import takes longer than the start of Python.
"""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def run() -> NoReturn:
    """Run the command line of this process and leave the process with its status."""
    # OpenBLAS reads this once, when numpy is imported. Our matrices are small, and its threads wait by spinning: on
    # busy cores a semantic model takes sixty times as long with two of them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from teia.lib.entry_points import collect_seldom, leave

    collect_seldom()
    words = sys.argv[1:]
    if words[:1] == ["search"]:
        from teia.cli.read.run_search import answer_here_or_there, parse_quickly, print_answer

        plain = parse_quickly(words[1:])
        if plain is not None:
            from teia.cli.exits import exit_status

            gc.disable()  # the process ends before its garbage matters: 7 of 177 ms
            leave(exit_status(lambda: print_answer(answer_here_or_there(*plain)), words))
    from teia.cli.main import status_of

    leave(status_of(words))
