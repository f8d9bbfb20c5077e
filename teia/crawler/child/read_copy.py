"""The work of a child on an archived capture: extract its text and links again, or sanitise it for display.

Captures are hostile, old ones no less than new ones. So they are read like fetched pages: in a process that may be
killed (parse/children/pool.py). The child's message is checked against these types before it is used.
"""

from __future__ import annotations

import msgspec

from teia.config.sections import LimitSettings
from teia.parse.children.child import Job
from teia.parse.decode import decode
from teia.parse.document import Document, ParseOptions
from teia.parse.headers import parse_head
from teia.parse.html.replay import replay, restyle
from teia.parse.parse import parse_document

MAX_LINKS = 2_000


class CaptureRequest(msgspec.Struct, array_like=True, frozen=True):
    """A capture: its URL, and head and body as archived. `purpose`: `text`, `page` or `style`."""

    purpose: str
    url: str
    head: bytes
    body: bytes


class CaptureText(msgspec.Struct, array_like=True, frozen=True):
    """Text and links of a capture, and its source as characters, where it has any."""

    media_type: str
    title: str
    language: str
    text: str
    text_digest: str
    links: tuple[str, ...]
    source: str
    truncated: str


class CaptureTemplate(msgspec.Struct, array_like=True, frozen=True):
    """A page or a style sheet with holes (parse/html/replay.py); `references` are (URL, use)."""

    media_type: str
    markup: str
    references: tuple[tuple[str, str], ...]
    is_safe: bool
    truncated: str


encode = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(CaptureRequest).decode
decode_text = msgspec.msgpack.Decoder(CaptureText).decode
decode_template = msgspec.msgpack.Decoder(CaptureTemplate).decode
HTML = frozenset({"text/html", "application/xhtml+xml"})


def capture_reader() -> Job:
    """Return the job of children that read captures."""
    return work


def work(payload: bytes) -> bytes:
    """Process a `CaptureRequest` message; return a `CaptureText` or a `CaptureTemplate`."""
    request = decode_request(payload)
    return encode(_text(request) if request.purpose == "text" else _template(request))


def _text(request: CaptureRequest) -> CaptureText:
    parsed = parse_document(request.url, request.head, request.body)
    page = parsed.page
    source = ""
    # Only a text has a source to show.
    if page.charset:
        source = Document(request.url, parsed.head, parsed.decoded.payload, ParseOptions()).markup
    links = dict.fromkeys(link.url for link in page.links if not link.kind.is_requisite and link.url != request.url)
    return CaptureText(
        page.media_type,
        _clean(page.title),
        page.language,
        _clean(page.text),
        page.text_digest,
        tuple(links)[:MAX_LINKS],
        _clean(source),
        page.truncated,
    )


def _template(request: CaptureRequest) -> CaptureTemplate:
    head = parse_head(request.head)
    decoded = decode(head.headers, request.body, LimitSettings())
    document = Document(request.url, head, decoded.payload, ParseOptions())
    # Any other type is not shown: only pages and style sheets can be made safe.
    if request.purpose == "style":
        made = restyle(document.markup, request.url)
    elif document.media_type in HTML:
        made = replay(document)
    else:
        return CaptureTemplate(document.media_type, "", (), is_safe=False, truncated="")
    cut = " ".join(filter(None, (decoded.truncated, *document.tree_losses)))
    references = tuple((each.url, str(each.use)) for each in made.references)
    return CaptureTemplate(document.media_type, _clean(made.markup), references, made.is_safe, cut)


def _clean(text: str) -> str:
    """Replace lone surrogates, which cannot be written as UTF-8."""
    return text.encode("utf-8", "replace").decode()
