"""Errors of bytes that are not what a decoder of msgspec expects.

Text that is not UTF-8 and data nested without end raise errors that are not msgspec's own, so `except
msgspec.MsgspecError` lets a message of another machine end the process that reads it.
"""

from __future__ import annotations

import msgspec

UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
