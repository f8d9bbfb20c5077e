"""What signals say of one page, as its page and `teia page` show it."""

from __future__ import annotations

from pathlib import Path

from teia.clock import iso_utc
from teia.collections.settings import saved
from teia.crawler.lookup import Lookup
from teia.frontier.cell import site_statements
from teia.signals.trust import SignalKind
from teia.store.root import open_root
from teia.views.page import PageSignal, page_view
from tests.crawler.keep_fresh.test_observe import URL, WEB, Revisited
from tests.crawler.offline import offline_crawl


def test_each_kind_is_shown_with_its_report_and_whether_that_was_checked(tmp_path: Path) -> None:
    with offline_crawl(WEB, tmp_path, *WEB) as offline:
        offline.run()
        revisited, root = Revisited(offline), open_root(tmp_path / "data")

        def shown() -> tuple[PageSignal, ...]:
            with Lookup(root, "main") as lookup:
                return page_view(lookup, URL, saved(root, "main").config, offline.clock).signals

        assert shown() == ()
        said_s = offline.clock.now_s()
        slot, host_id, key = revisited.place(URL)
        with revisited.frontier.transaction() as frontier:
            for kind in (SignalKind.WEBSUB, SignalKind.SITEMAP):
                site_statements.store_statements(frontier, slot, host_id, kind, 0, {key: said_s}, said_s)
        assert shown() == tuple(
            PageSignal(kind, iso_utc(said_s), None, is_news=True, weight=0.5) for kind in ("sitemap", "websub")
        )
        revisited.visit("<p>second</p>")
        looked_at = shown()
        assert [each.is_news for each in looked_at] == [False, False]
        assert all(each.heard == iso_utc(said_s) and each.weight > 0.5 for each in looked_at), "it was true"
