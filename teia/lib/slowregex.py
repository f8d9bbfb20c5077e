"""Whether a regular expression can take very long on some text; asked before one that came from elsewhere is used.

Python's engine tries every way to match, which for `(a+)+$` are more than there are atoms, and cannot be interrupted.
So the expression is tried in a process of its own on texts that are hard for expressions of its kind, long runs of the
signs it names, and that process is given little time. An expression that passes can still be slow on a text that
nobody thought of; what is left is quadratic at worst on what was tried.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import lru_cache

PATIENCE_S = 1.0
LENGTH = 2_000
USUAL = "a0/-=.&"
ENDS = ("!", "\x01")
"""So that an expression that asks for the one at the end has the other to fail at."""
REMEMBERED = 512
_TRY = """
import json, re, sys
expression, texts = json.load(sys.stdin)
expression = re.compile(expression)
for text in texts:
    expression.search(text)
"""


@lru_cache(maxsize=REMEMBERED)
def is_slow(expression: str) -> bool:
    """Whether the expression did not get through hard texts of 2,000 characters in time; it must be a valid one."""
    signs = dict.fromkeys([*re.findall(r"[\w/=&.%-]", expression)[:24], *USUAL])
    runs = [sign * LENGTH for sign in signs]
    runs += [f"{sign}x" * (LENGTH // 2) for sign in signs]
    texts = [f"http://h.test/{run}{end}" for run in runs for end in ENDS]
    asked, command = json.dumps([expression, texts]), [sys.executable, "-I", "-S", "-c", _TRY]
    try:
        done = subprocess.run(  # noqa: S603  # our own text; the expression is data
            command, input=asked, text=True, capture_output=True, timeout=PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0
