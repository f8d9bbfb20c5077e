"""How a crawler is put together from its settings."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path

import msgspec

from tests.crawler.webs import ScriptedWeb, crawl_web, html


def test_no_more_requests_are_under_way_than_fetch_at_once_says(tmp_path: Path) -> None:
    """A9: the cap of downloads can be set. Ten servers that take their time, two slots, by the lab's own log."""
    slow = msgspec.structs.replace(html(), delay_s=0.15)
    web = ScriptedWeb({f"h{number}.test": {"/": slow} for number in range(10)})
    seeds = [f"h{number}.test/" for number in range(10)]
    entries = crawl_web(web, tmp_path, *seeds, fetch__at_once=2, courtesy__robots=False).entries
    assert len(entries) == 10
    changes = sorted([(entry.start_s, 1) for entry in entries] + [(entry.end_s, -1) for entry in entries])
    assert max(accumulate(change for _, change in changes)) == 2
