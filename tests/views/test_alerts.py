"""A warning that was set aside comes back when it is twice as bad (UX 2.6)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from teia.collections.control_file import CrawlReports
from teia.views.alerts import Alert, alert_severity, alert_subject, list_dismissed, split_dismissed

SLOW = Alert("slow_host", "", 45.0, "jornal.test", 31 * 86_400.0, 7 * 86_400.0)
DISK = Alert("disk", "", 80.0, value=0.06, limit=0.05)
FRESH = Alert("freshness", "", 50.0, value=0.6, limit=0.8)
PAUSED = Alert("paused", "", 90.0, detail="the disk is full")


@pytest.mark.parametrize(
    ("need", "a_little_worse", "twice_as_bad"),
    [
        (SLOW, replace(SLOW, value=61 * 86_400.0), replace(SLOW, value=62 * 86_400.0)),
        (DISK, replace(DISK, value=0.04), replace(DISK, value=0.03)),
        (FRESH, replace(FRESH, value=0.45), replace(FRESH, value=0.39)),
        (PAUSED, PAUSED, replace(PAUSED, detail="something else")),
    ],
)
def test_it_returns_when_it_has_doubled(
    need: Alert, a_little_worse: Alert, twice_as_bad: Alert, tmp_path: Path
) -> None:
    control = CrawlReports(tmp_path / "control.sqlite")
    control.dismiss("main", need.kind, alert_subject(need), alert_severity(need), "ana", 100.0)
    known = list_dismissed(control, "main")
    assert [(each.who, each.time_s) for each in known] == [("ana", 100.0)]
    assert split_dismissed([need], known)[0] == []
    assert split_dismissed([a_little_worse], known)[0] == []
    assert split_dismissed([twice_as_bad], known)[0] == [twice_as_bad]
    assert split_dismissed([replace(need, host="other.test")], known)[0], "of another host it is another one"
    assert list_dismissed(control, "other") == []
    assert control.restore("main", need.kind, alert_subject(need))
    assert not control.restore("main", need.kind, alert_subject(need))
    assert split_dismissed([need], list_dismissed(control, "main"))[0] == [need]
    control.close()
