"""The summary of a crawl that served schedules."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from teia.cli.crawl.run_scheduled import account_of
from teia.cli.main import application
from teia.collections.controllers import CollectionController
from teia.config.sections import Config
from teia.store.root import open_root


def test_a_crawler_that_was_stopped_before_a_run_was_due_tells_what_is_stored(tmp_path: Path) -> None:
    """Seen: "0 known URLs" of a collection with 542 that waited for the first of the month."""
    (tmp_path / "list").write_text("http://a.test/\nhttp://a.test/b\n", "utf-8")
    words = ["import", "urls", str(tmp_path / "list"), "--data", str(tmp_path / "data")]
    assert CliRunner().invoke(application(["import"]), words).exit_code == 0
    account = account_of(open_root(tmp_path / "data"), CollectionController("main", Config(), None))
    assert (account["state"], account["requests"]) == ("stopped", 0)
    assert (account["urls_known"], account["urls_queued"], account["captures"]) == (2, 2, 0)
