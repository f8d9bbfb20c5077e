"""Reader of a cell's WARC files, record by record.

Members are found by decompressing one after the other (isal), the header of each is handed to fastwarc, and a member
must be exactly one record. So memory is bounded by the largest record, a file that is a single gzip member is noticed,
and a damaged member costs only itself: reading continues at the next place that decompresses to a WARC record.

Foreign files are read the same way, the uncompressed ones (`.warc`) record by record. For any content, no more than one
record of MAX_RECORD_BYTES with a header of MAX_HEADER_BYTES is in memory. ARC files are read by
`transfer/arc_captures.py`.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal, cast

from fastwarc.warc import WarcRecord, WarcRecordType
from isal import igzip_lib

from teia.clock import from_iso
from teia.durable import disk_errors
from teia.errors import CorruptFile, StoreError
from teia.lib.progress import advance
from teia.store.archive import Position, archive_path, committed_files

MAX_RECORD_BYTES = 64 << 20
"""A record larger than this, decompressed, is reported and passed over; ours are kept below it by the fetch limits."""

MAX_HEADER_BYTES = 1 << 20
MAX_HEADER_LINES = 2_000
"""A WARC header with more than this is reported and its record passed over: each line takes far more in memory."""

_PIECE = 16 << 10
_BUFFER = 256 << 10
"""Most members fit in a piece; the buffer spares reading again what lies behind the end of one."""

_MAGIC = b"\x1f\x8b\x08"
_BLANK_LINE = b"\r\n\r\n"
_CONTENT_LENGTH = re.compile(rb"\ncontent-length:[ \t]*(\d{1,18})[ \t]*\r\n", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Member:
    """One gzip member: its place and its content, or why it cannot be read (`damage` is not empty)."""

    offset: int
    length: int
    data: bytes = b""
    damage: str = ""


@dataclass(frozen=True, slots=True)
class Damage:
    """A place in the archive that cannot be read."""

    path: Path
    offset: int
    why: str


@dataclass(frozen=True, slots=True)
class ArchiveRecord:
    """One WARC record. `kind` is its WARC-Type; `headers` have lower-case names; `block` is all that follows them."""

    file: str
    offset: int
    length: int
    kind: str
    url: str
    time_s: float
    headers: dict[str, str]
    block: bytes


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """An HTTP answer out of the archive.

    `payload` is the body, decompressed where requested and possible (`is_decoded`). For a revisit it is empty, and
    `refers_to` is the URL and time of the response that has it. `truncated` says why part is missing.
    """

    url: str
    time_s: float
    status: int
    head: bytes
    payload: bytes
    is_decoded: bool = False
    media_type: str = ""
    digest: str = ""
    truncated: str = ""
    refers_to: tuple[str, float] | None = None


def ignore_damage(_damage: Damage) -> None:
    """Continue at the next record; reporting damage is the audit's task."""


class ArchiveReader:
    """Reads committed records. `end`, the committed position, keeps readers off records that are being appended."""

    def __init__(self, folder: Path, end: Position | None = None, max_record_bytes: int = MAX_RECORD_BYTES) -> None:
        self._folder, self._end, self._max_record_bytes = folder, end, max_record_bytes

    def records(self, on_damage: Callable[[Damage], None] | None = None) -> Iterator[ArchiveRecord]:
        """Yield every record in the order written. Damage is reported and passed over, or raised as CorruptFile."""
        with disk_errors(self._folder, "read"):
            files = committed_files(self._folder, self._end)
        for path, end in files:
            yield from file_records(path, on_damage, end, self._max_record_bytes)

    def path_of(self, file: str) -> Path:
        """Return the path of a file that the frontier, the fetch log or a CDXJ line names."""
        return archive_path(self._folder, file)

    def read(self, file: str, offset: int) -> ArchiveRecord:
        """Return the record at a place in one of those files."""
        path = self.path_of(file)
        if path.name != file or not path.is_file():
            raise StoreError(f"{file}: file not found in {self._folder}")
        with disk_errors(path, "read"), path.open("rb") as stream:
            member = next(read_members(stream, offset, None, self._max_record_bytes), None)
        if member is None:
            raise CorruptFile(path, f"offset {offset}: the file ends before it")
        return record_of(path, member)

    def answer(self, file: str, offset: int, decoded: bool = True) -> StoredAnswer:
        """Return the HTTP answer stored at a place."""
        return answer_of(self.read(file, offset), decoded, self._max_record_bytes)


def file_records(
    path: Path,
    on_damage: Callable[[Damage], None] | None = None,
    end: int | None = None,
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> Iterator[ArchiveRecord]:
    """Yield the records of one file, `.warc.gz` or `.warc`; see `ArchiveReader.records`."""
    for member in walk_file(path, end, max_record_bytes):
        try:
            record = record_of(path, member)
        except CorruptFile as error:
            if on_damage is None:
                raise
            on_damage(Damage(path, member.offset, str(error).removeprefix(f"{path}: ")))
        else:
            yield record


def walk_file(
    path: Path, end: int | None = None, max_record_bytes: int = MAX_RECORD_BYTES, start: int = 0
) -> Iterator[Member]:
    """Yield the members of one file, readable or not; the records of an uncompressed file count as members.

    `start`, where a member must begin, passes over the first of a compressed file.
    """
    with disk_errors(path, "read"), path.open("rb", buffering=_BUFFER) as stream:
        if path.name.endswith(".warc"):
            found = _read_plain(stream, max_record_bytes)
        else:
            found = read_members(stream, start, end, max_record_bytes)
        for member in found:
            advance(member.length)
            yield member


# ---- members --------------------------------------------------------------------------------------------------------


def read_members(stream: BinaryIO, start: int, end: int | None, max_bytes: int) -> Iterator[Member]:
    """Yield the gzip members between two offsets. After a damaged one, continue where the next WARC record begins.

    No reference is kept here while the caller has a member: a caller that drops one frees its memory.
    """
    offset = start
    while end is None or offset < end:
        member = _one_member(stream, offset, end, max_bytes)
        if member is None:
            return
        if member.damage:
            # The length in a damaged member cannot be trusted, so the search begins one byte further.
            next_offset = _next_record(stream, offset + 1, end)
            yield Member(offset, next_offset - offset, damage=member.damage)
            offset = next_offset
        else:
            offset += member.length
            # pop() gives away the last reference: while the caller works, this frame holds no second one.
            held = [member]
            del member
            yield held.pop()


def _one_member(stream: BinaryIO, offset: int, end: int | None, max_bytes: int) -> Member | None:
    """Decompress the member at `offset`, never more than `max_bytes` of it; None at the end of the file."""
    stream.seek(offset)
    unzip = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
    pieces: list[bytes] = []
    size = read = 0
    try:
        while not unzip.eof:
            raw = b""
            if unzip.needs_input:
                # Never read past `end`: a writer may be appending there.
                raw = stream.read(_PIECE if end is None else min(_PIECE, end - offset - read))
                read += len(raw)
                if not read:
                    return None
                if not raw:
                    return Member(offset, 0, damage="the file ends within a record")
            # One byte more than allowed is enough to know that the record is too large.
            pieces.append(unzip.decompress(raw, max_bytes + 1 - size))
            size += len(pieces[-1])
            if size > max_bytes:
                return Member(offset, 0, damage=f"more than {max_bytes} bytes, decompressed")
    except igzip_lib.IsalError as error:  # type: ignore[misc]  # a class; its stub says an instance
        return Member(offset, 0, damage=f"cannot be decompressed: {error}")
    return Member(offset, read - len(unzip.unused_data), b"".join(pieces))


def _next_record(stream: BinaryIO, offset: int, end: int | None) -> int:
    """Return where, from `offset` on, a gzip member begins that holds a WARC record; the end if nowhere."""
    stop = stream.seek(0, io.SEEK_END) if end is None else end
    while offset < stop:
        stream.seek(offset)
        window = stream.read(_PIECE)
        found = window.find(_MAGIC)
        if found < 0:
            # Windows overlap by two bytes: the magic number may lie across their border.
            offset += max(1, len(window) - len(_MAGIC) + 1)
        # The three bytes also occur inside compressed data; only "WARC/" behind them proves a record.
        elif _is_record(_at(stream, offset + found)):
            return min(offset + found, stop)
        else:
            offset += found + 1
    return stop


def _at(stream: BinaryIO, offset: int) -> bytes:
    stream.seek(offset)
    return stream.read(1024)


def _is_record(raw: bytes) -> bool:
    try:
        begin: bytes = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP).decompress(raw, 5)
    except igzip_lib.IsalError:  # type: ignore[misc]  # as above
        return False
    return begin == b"WARC/"


def _read_plain(stream: BinaryIO, max_bytes: int) -> Iterator[Member]:
    """Yield the records of an uncompressed file like members. Damage ends it: nothing marks where the next begins."""
    size = stream.seek(0, io.SEEK_END)
    offset = _after_line_ends(stream, 0)
    while header := _plain_header(stream, offset):
        promised = _CONTENT_LENGTH.search(header)
        if not header.startswith(b"WARC/") or not header.endswith(_BLANK_LINE) or promised is None:
            yield Member(offset, 0, damage="not a WARC record")
            return
        block_bytes = int(promised[1])
        block_at = offset + len(header)
        if block_at + block_bytes > size:
            yield Member(offset, 0, damage="the file ends within a record")
            return
        if block_bytes > max_bytes:
            yield Member(offset, 0, damage=f"more than {max_bytes} bytes")
        else:
            stream.seek(block_at)
            block = stream.read(block_bytes)
            held = [Member(offset, len(header) + block_bytes, b"".join((header, block, _BLANK_LINE)))]
            del block
            yield held.pop()
        offset = _after_line_ends(stream, block_at + block_bytes)


class _Inflated(io.RawIOBase):
    """Content of a gzip file. Data before a damaged place is returned, then EOFError or IsalError is raised."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file, self._unzip = file, igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
        self._is_begun = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            raw = b""
            if self._unzip.eof:
                raw = self._unzip.unused_data
                self._unzip = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
                self._is_begun = False
            if not raw and self._unzip.needs_input:
                raw = self._file.read(_PIECE)
                if not raw and self._is_begun:
                    raise EOFError("the file ends within a gzip member")
                if not raw:
                    return 0
            self._is_begun = True
            data: bytes = self._unzip.decompress(raw, len(buffer))
            if data:
                buffer[: len(data)] = data
                return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def open_inflated(path: Path) -> BinaryIO:
    """Open a file for reading, decompressed if it is a gzip file."""
    file = path.open("rb")
    is_compressed = file.read(2) == _MAGIC[:2]
    file.seek(0)
    return cast("BinaryIO", io.BufferedReader(_Inflated(file), _BUFFER)) if is_compressed else file


def walk_decompressed(path: Path, max_bytes: int = MAX_RECORD_BYTES) -> Iterator[Member]:
    """Yield the records of a file that is one gzip member as a whole; their offsets are those after decompression.

    The standard wants a member for each record, so that one can be read by itself; some writers made one of them all.
    """
    offset = 0
    try:
        with disk_errors(path, "read"), open_inflated(path) as stream:
            while header := _next_header(stream):
                promised = _CONTENT_LENGTH.search(header)
                if not header.startswith(b"WARC/") or not header.endswith(_BLANK_LINE) or promised is None:
                    yield Member(offset, 0, damage="not a WARC record")
                    return
                length = int(promised[1])
                block = stream.read(length) if length <= max_bytes else None
                if block is None:
                    _pass_over(stream, length)
                    yield Member(offset, 0, damage=f"more than {max_bytes} bytes")
                elif len(block) < length:
                    yield Member(offset, 0, damage="the file ends within a record")
                else:
                    held = [Member(offset, len(header) + length, b"".join((header, block, _BLANK_LINE)))]
                    del block
                    yield held.pop()
                offset += len(header) + length
    except (EOFError, igzip_lib.IsalError) as error:  # type: ignore[misc]  # as above
        yield Member(offset, 0, damage=f"cannot be decompressed: {error}")


def _next_header(stream: IO[bytes]) -> bytes:
    """Return the next header with its blank line; empty at the end of the file."""
    lines: list[bytes] = []
    size = 0
    while size < MAX_HEADER_BYTES and (line := stream.readline(MAX_HEADER_BYTES)):
        if line.strip(b"\r\n"):
            lines.append(line)
            size += len(line)
        elif lines:
            return b"".join((*lines, b"\r\n"))
    return b"".join(lines)


def _pass_over(stream: IO[bytes], length: int) -> None:
    while length > 0 and (piece := stream.read(min(length, _BUFFER))):
        length -= len(piece)


def is_one_member(path: Path) -> bool:
    """Tell whether the first gzip member of a file holds more than its first record."""
    if not path.name.endswith(".gz"):
        return False
    unzip, data = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP), b""
    with disk_errors(path, "read"), path.open("rb") as stream:
        try:
            while not unzip.eof and len(data) < MAX_HEADER_BYTES and (raw := stream.read(_PIECE)):
                data += unzip.decompress(raw)
        except igzip_lib.IsalError:  # type: ignore[misc]  # as above
            return False
    ends, promised = data.find(_BLANK_LINE), _CONTENT_LENGTH.search(data)
    if ends < 0 or promised is None:
        return False
    return bool(data[ends + len(_BLANK_LINE) + int(promised[1]) :].strip(b"\r\n"))


def _plain_header(stream: BinaryIO, offset: int) -> bytes:
    """Return the header at a place, with its blank line; the bytes there if no header ends, empty at the file's end."""
    for at_most in (_PIECE, MAX_HEADER_BYTES):
        stream.seek(offset)
        beginning = stream.read(at_most)
        ends = beginning.find(_BLANK_LINE)
        if ends >= 0 or len(beginning) < at_most:
            break
    return beginning[: ends + len(_BLANK_LINE)] if ends >= 0 else beginning


def _after_line_ends(stream: BinaryIO, offset: int) -> int:
    """Return where the next line begins that is not empty."""
    stream.seek(offset)
    while piece := stream.read(_PIECE):
        rest = piece.lstrip(b"\r\n")
        offset += len(piece) - len(rest)
        if rest:
            break
    return offset


# ---- records --------------------------------------------------------------------------------------------------------


def header_of(member: Member) -> bytes:
    """Return the WARC header of a member, with its blank line; ValueError if it is missing or too long."""
    ends = member.data.find(_BLANK_LINE, 0, MAX_HEADER_BYTES)
    if ends < 0:
        raise ValueError(f"header longer than {MAX_HEADER_BYTES} bytes")
    if member.data.count(b"\n", 0, ends) > MAX_HEADER_LINES:
        raise ValueError(f"header of more than {MAX_HEADER_LINES} lines")
    return member.data[: ends + len(_BLANK_LINE)]


def record_of(path: Path, member: Member) -> ArchiveRecord:
    """Parse a member that must be one whole record: header, block of the promised length, two line ends."""
    if member.damage:
        raise CorruptFile(path, f"offset {member.offset}: {member.damage}")
    try:
        header = header_of(member)
        parsed = WarcRecord.from_bytes(header)
        headers = {name.lower(): value for name, value in parsed.headers.to_tuples()}
        block_at = len(header)
        block_bytes = int(headers["content-length"])
        time_s = from_iso(headers["warc-date"])
    except (OSError, ValueError, KeyError) as error:
        raise CorruptFile(path, f"offset {member.offset}: not a WARC record: {error}") from error
    if block_bytes < 0 or block_at + block_bytes > len(member.data):
        raise CorruptFile(path, f"offset {member.offset}: the record is shorter than its declared length")
    # Offsets of CDXJ and fetch log name members, so a second record in one could never be addressed.
    if member.data[block_at + block_bytes :].strip(b"\r\n"):
        raise CorruptFile(path, f"offset {member.offset}: more than one record in a gzip member")
    block = member.data[block_at : block_at + block_bytes]
    kind = headers.get("warc-type", "")
    url = _target(headers.get("warc-target-uri", ""))
    return ArchiveRecord(path.name, member.offset, member.length, kind, url, time_s, headers, block)


def _target(uri: str) -> str:
    """Undo what some writers did to WARC-Target-URI: angle brackets (Wget 1.19), unescaped blanks."""
    if uri.startswith("<") and uri.endswith(">"):
        uri = uri[1:-1]
    return uri.replace(" ", "%20")


def answer_of(record: ArchiveRecord, decoded: bool = True, max_bytes: int = MAX_RECORD_BYTES) -> StoredAnswer:
    """Take the HTTP answer out of a response or revisit record."""
    if record.kind not in {"response", "revisit"}:
        raise StoreError(
            f"{record.file}: the record at offset {record.offset} is of type {record.kind}, not a response"
        )
    head, raw = split_head(record.block)
    parsed, payload = (_decoded(record.block, max_bytes) if decoded else None) or (_http(record.block, "none"), raw)
    return StoredAnswer(
        url=record.url,
        time_s=record.time_s,
        status=int(parsed.http_headers.status_code or 0),
        head=head,
        payload=payload[:max_bytes],
        is_decoded=payload is not raw,
        media_type=parsed.http_content_type or "",
        digest=record.headers.get("warc-payload-digest", ""),
        truncated=record.headers.get("warc-truncated", "") or ("length" if len(payload) > max_bytes else ""),
        refers_to=_refers_to(record),
    )


def split_head(block: bytes, max_body_bytes: int | None = None) -> tuple[bytes, bytes]:
    """Return the head of an HTTP message, blank line included, and what follows it, or as much of it as is wanted."""
    # Bare LFs occur in foreign archives; our own writer stores CR LF only.
    for blank_line in (b"\r\n\r\n", b"\n\n"):
        at = block.find(blank_line)
        if at >= 0:
            body_at = at + len(blank_line)
            return block[:body_at], block[body_at : None if max_body_bytes is None else body_at + max_body_bytes]
    return block, b""


def _http(block: bytes, decode: Literal["none", "all"]) -> WarcRecord:
    record = WarcRecord()
    record.init_headers(WarcRecordType.response)
    record.is_http = True
    record.set_bytes_content(block)
    record.parse_http(auto_decode=decode, quirks_mode=True)
    return record


def _decoded(block: bytes, max_bytes: int) -> tuple[WarcRecord, bytes] | None:
    """Undo the codings the head names, up to one byte more than `max_bytes`; None if they were not as it says."""
    try:
        parsed = _http(block, "all")
        return parsed, parsed.reader.read(max_bytes + 1)
    except OSError:
        return None


def _refers_to(record: ArchiveRecord) -> tuple[str, float] | None:
    uri, date = record.headers.get("warc-refers-to-target-uri"), record.headers.get("warc-refers-to-date")
    if record.kind != "revisit" or uri is None or date is None:
        return None
    try:
        return _target(uri), from_iso(date)
    except ValueError:
        raise StoreError(f"{record.file}: the record at offset {record.offset} refers to a time that is none") from None
