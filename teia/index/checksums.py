"""Checksums of an index's files, read without tantivy.

tantivy ends each file of a segment with a footer: JSON with the CRC-32 of all bytes before it, the footer's length
(u32) and the number 1337 (u32). It writes the checksum and never checks it: a damaged file gives wrong answers, an
error or a panic, by chance.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from teia.index.position import META_FILE

_END = struct.Struct("<II")
_MAGIC = 1337
_MAX_FOOTER_BYTES = 4_096
_AT_ONCE = 1 << 20


def segment_files(folder: Path, meta: dict[str, Any]) -> Iterator[Path]:
    """Yield the files of an index's segments."""
    segments = {segment["segment_id"].replace("-", "") for segment in meta["segments"]}
    return (file for file in folder.iterdir() if file.name.partition(".")[0] in segments)


def damaged_files(folder: Path) -> list[str]:
    """Return the names of the files of an index that do not match their checksums."""
    try:
        files = list(segment_files(folder, json.loads((folder / META_FILE).read_bytes())))
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError, AttributeError):
        return [META_FILE]
    return sorted(file.name for file in files if not _is_whole(file))


def _is_whole(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            size = os.fstat(opened.fileno()).st_size
            opened.seek(max(0, size - _END.size))
            length, magic = _END.unpack(opened.read().rjust(_END.size, b"\0"))
            end = size - _END.size - length
            if magic != _MAGIC or length > _MAX_FOOTER_BYTES or end < 0:
                return False
            opened.seek(end)
            expected = int(json.loads(opened.read(length))["crc"])
            opened.seek(0)
            found = 0
            while end > 0 and (some := opened.read(min(end, _AT_ONCE))):
                found, end = zlib.crc32(some, found), end - len(some)
    except FileNotFoundError:  # merged away meanwhile
        return True
    except (ValueError, KeyError, TypeError):
        return False
    return end == 0 and found == expected
