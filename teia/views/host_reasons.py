"""Reasons why a host is not finished, as words that users can filter by.

A host may have several. All of them come from its line of the host table (hosts.py), so that a hundred thousand hosts
can be classified in a moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from teia.crawler.keep_fresh.bound import WEEK_S
from teia.frontier.queue.host_rules import PAUSED
from teia.views.hosts import HostLine

MANY_FAILURES, MANY_SHARE = 5, 0.1

REASONS = ("paused", "parked", "unanswered", "errors", "left_out", "slow", "retry", "suspect", "resting")
"""Reasons by severity, the worst first.

paused      an operator paused it
parked      it is left alone for another reason, as a Crawl-delay that is too long
unanswered  no page of it could ever be fetched
errors      a tenth of its answers or more are failures
left_out    all its known URLs are left out: by robots.txt, by the rules, as traps
slow        one pass takes longer than a week
retry       some of its URLs failed and wait for another try
suspect     some of its URLs may be a trap and come last
resting     its politeness delay is running, or its server asked us to wait
"""


def reasons_of(line: HostLine, now_s: float) -> tuple[str, ...]:
    """Return the reasons why a host is not finished; none if all is well."""
    waits = line.waits
    settled = line.visited + line.failed
    found = (
        ("paused", line.parked == PAUSED),
        ("parked", bool(line.parked) and line.parked != PAUSED),
        ("unanswered", line.failed > 0 and not line.visited),
        ("errors", line.visited > 0 and line.failed >= max(MANY_FAILURES, MANY_SHARE * settled)),
        ("left_out", line.excluded > 0 and line.excluded == line.urls),
        ("slow", line.pass_s > WEEK_S),
        ("retry", waits.retry_later > 0),
        ("suspect", waits.suspect > 0),
        ("resting", not line.parked and waits.ready > 0 and (line.ready_at_s or 0.0) > now_s),
    )
    return tuple(word for word, is_so in found if is_so)


def count_reasons(lines: Iterable[HostLine], now_s: float) -> dict[str, int]:
    """Count the hosts that have each reason."""
    found = Counter(word for line in lines for word in reasons_of(line, now_s))
    return {word: found[word] for word in REASONS}
