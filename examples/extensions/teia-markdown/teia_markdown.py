"""A media type of its own: Markdown files get a title, text and links.

Install the package, then name the processor in the collection's settings:

    [parse]
    processors = ["text/markdown=markdown"]
"""

from __future__ import annotations

import re
from urllib.parse import urljoin

from teia.parse.document import Document, Findings
from teia.records import Link

HEADING = re.compile(r"^#{1,6}[ \t]+(.+)$", re.MULTILINE)
LINK = re.compile(r"\[([^\]\n]{0,500})\]\(([^()\s]{1,2000})\)")


def read_markdown(document: Document) -> Findings:
    """Return the first heading as title, the text without link targets, and the links."""
    heading = HEADING.search(document.markup)
    links = [Link(urljoin(document.url, found[2]), text=found[1]) for found in LINK.finditer(document.markup)]
    return Findings(
        title=heading[1].strip() if heading else "",
        text=LINK.sub(r"\1", document.markup),
        links=tuple(link for link in links if link.url.startswith(("http://", "https://"))),
    )
