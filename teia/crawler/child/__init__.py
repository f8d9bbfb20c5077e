"""The work of parse children.

read_answer  read one answer: links, text, archive records, the hub of a feed
messages     messages between crawler and child, as bytes
seen_answer  an answer whose body another URL brought before
index_entry  a page as an entry of the index
focus        a focused crawl: its topic, the relevance of pages, the promise of links
read_copy    read or sanitise an archived capture
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from teia.parse.children.child import Job


def answer_reader() -> Job:
    """Return the job of parse children; it is named in a module without imports, so that children can start first."""
    from teia.crawler.child.read_answer import prepare, read

    prepare()
    return read
