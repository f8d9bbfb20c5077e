"""The sentences of `teia remove`."""

from __future__ import annotations

import pytest

from teia.cli.data.remove import _print
from teia.transfer.removal import RemovalResult


def test_numbers_have_their_nouns(capsys: pytest.CaptureFixture[str]) -> None:
    """One page was removed as `1 URLs`."""
    done = RemovalResult("main", ["http://a.test/"], "asked", "2026-11-18T12:00:00Z", is_dry_run=False)
    done.urls, done.records, done.pages_again = 1, 3, 1
    _print(done)
    assert capsys.readouterr().out.splitlines() == [
        "1 URL, 3 records (0 B), 0 subscriptions and 0 notices removed",
        "1 other page shared a removed body and will be fetched again",
        "read again: nothing of them is left",
    ]
