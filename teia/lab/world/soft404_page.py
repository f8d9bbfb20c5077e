"""The "not found" page of a host that answers missing paths with status 200 (a soft 404)."""

from __future__ import annotations

from html import escape

from teia.lab.world.pages import PageFrame
from teia.lab.world.urlspace import UrlSpace


def not_found_page(space: UrlSpace, frame: PageFrame, path: bytes) -> bytes:
    """Write the page in the host's usual frame. An `echo` host names the requested path, a `plain` one does not."""
    lexicon, markup = space.lexicon, frame.markup
    phrase = lexicon.phrases["not_found"]
    shown = b"/" + escape(path.decode("latin-1")).encode("ascii", "xmlcharrefreplace")
    title, sentence = phrase, phrase + b"."
    if space.host.soft_404 == "echo":
        title, sentence = b"%b: %b" % (phrase, shown), b"%b: %b." % (phrase, shown)
    pieces = (
        frame.top, title, frame.after_title, frame.head_end, frame.banner, frame.navigation,
        markup.subheading % phrase, markup.paragraphs[0] % sentence,
        markup.aside % (lexicon.phrases["advertisement"], lexicon.advertisements[0], lexicon.proverbs[0]),
        frame.footer, b"0", markup.end,
    )  # fmt: skip
    return b"".join(pieces).replace(b"\x01", lexicon.places[0]).replace(b"\x02", lexicon.people[0])
