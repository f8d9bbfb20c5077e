"""Atom feed (RFC 4287) of a subscription: its notifications, one entry per result, with its changes.

Text that a site wrote is escaped twice: as HTML, and then as XML text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any
from uuid import UUID
from xml.sax.saxutils import escape, quoteattr

from markupsafe import Markup

from teia.clock import iso_utc
from teia.signals.subscriptions import Notice, Subscription

MEDIA_TYPE = "application/atom+xml"
ENTRIES = 200


def atom(subscription: Subscription, notices: Sequence[Notice], address: str, page: str) -> str:
    """Return the feed at an address; `page` is the web page of the watched page or search."""
    updated_s = notices[0].time_s if notices else subscription.made_s
    entries = "".join(islice((each for notice in notices for each in _entries(notice)), ENTRIES))
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<feed xmlns="http://www.w3.org/2005/Atom">
<id>{_identity(subscription.id)}</id>
<title>{xml_text(subscription.what)} · teia</title>
<updated>{iso_utc(updated_s)}</updated>
<author><name>teia</name></author>
<link rel="self" type="{MEDIA_TYPE}" href={quoteattr(_plain(address))}/>
<link rel="alternate" type="text/html" href={quoteattr(_plain(page))}/>
{entries}</feed>
"""


def _entries(notice: Notice) -> Iterator[str]:
    message = json.loads(notice.message)
    for number, item in enumerate(message["data"].get("items", ())):
        yield (
            f"<entry><id>{_identity(notice.id, str(number))}</id>"
            f"<title>{xml_text(item['title'] or item['url'])}</title>"
            f"<updated>{xml_text(item['seen'])}</updated><link href={quoteattr(_plain(item['url']))}/>"
            f"<category term={quoteattr(item['what'])}/>"
            f'<content type="html">{xml_text(_content(item))}</content></entry>\n'
        )


def _content(item: Mapping[str, Any]) -> str:
    """Return the body of an entry as HTML."""
    parts = [Markup("<p>{}</p>").format(item["snippet"])] if item.get("snippet") else []
    difference = item.get("difference")
    if difference:
        shown = Markup(" ").join(_part(part) for part in difference["parts"])
        parts.append(Markup("<p>{}</p>").format(shown))
        if difference["not_shown"]:
            parts.append(Markup("<p>+ {}</p>").format(difference["not_shown"]))
    return str(Markup("").join(parts) or Markup("<p>{}</p>").format(item["what"]))


def _part(part: Mapping[str, Any]) -> Markup:
    if part["kind"] == "skipped":
        return Markup("[… {} …]").format(part["words"])
    if part["kind"] == "same":
        return Markup("{}").format(part["after"])
    before = Markup("<del>{}</del>").format(part["before"]) if part["before"] else Markup("")
    after = Markup("<ins>{}</ins>").format(part["after"]) if part["after"] else Markup("")
    return before + Markup(" ") + after if before and after else before or after


def _identity(*parts: str) -> str:
    # RFC 4287, 4.2.6: the id of an entry never changes, so it is derived from that of the notice.
    return UUID(bytes=sha256("\0".join(parts).encode()).digest()[:16]).urn


# XML 1.0, section 2.2: control characters, surrogates and two others are not characters.
_NOT_XML = re.compile("[^\t\n -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _plain(text: str) -> str:
    """Remove characters that XML cannot represent."""
    return _NOT_XML.sub("", text)


def xml_text(text: str) -> str:
    """Escape text for XML, without the characters that XML cannot represent."""
    return escape(_plain(text))
