"""Lists of hosts: which names each form gives, and what a collection makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from teia.clock import WallClock
from teia.crawler.lookup import Lookup
from teia.frontier.cell.schema import BY_LIST
from teia.store.root import open_root
from teia.transfer.import_data import ImportResult, choose_collection, open_target
from teia.transfer.import_hosts import hosts_of_host_lists, import_hosts, read_host_names
from teia.transfer.import_lists import import_urls
from teia.views.reports.coverage import coverage
from teia.views.reports.source import open_source

ZONE = """
$TTL 86400 ; a day
$ORIGIN pt.
@       IN SOA  ns.dns.pt. hostmaster.dns.pt. (
            2001082901 ; serial
            7200 3600 604800 86400 )
        IN NS   ns.dns.pt.
exemplo 3600 IN NS ns1.exemplo.pt.
        IN NS   ns2.exemplo.pt.
www.exemplo     IN A    192.0.2.1
_sip._tcp       IN SRV  0 5 5060 sip.exemplo.pt.
mail            IN MX   10 mx.exemplo.pt.
outro.pt.       IN CNAME www.exemplo.pt.
"""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a.test\n# a comment\n\nb.test. ; another\n", ["a.test", "b.test"]),
        ("127.0.0.1 localhost\n192.0.2.1 www.a.test b.test # two names\n", ["www.a.test", "b.test"]),
        ('$ORIGIN a.test.\nx IN TXT "one (two; three)"\n$ORIGIN b\ny IN A 192.0.2.1\n', ["y.b.a.test"]),
        (ZONE, ["pt", "exemplo.pt", "exemplo.pt", "www.exemplo.pt", "outro.pt"]),
    ],
)
def test_names_of_lists_hosts_files_and_zones(tmp_path: Path, text: str, names: list[str]) -> None:
    path = tmp_path / "hosts"
    path.write_text(text, encoding="utf-8")
    done = ImportResult("")
    assert list(read_host_names(path, done)) == names
    assert done.refused == 0


def test_home_pages_are_queued_and_counted_as_a_list(tmp_path: Path) -> None:
    """A list of URLs is a list too; a name that is no host, and a line of another kind, are refused."""
    zone, urls = tmp_path / "zone", tmp_path / "urls"
    zone.write_text(f"{ZONE}some other words\n", encoding="utf-8")
    urls.write_text("http://a.pt/x\n", encoding="utf-8")
    root = open_root(tmp_path / "data", create=True)
    name = choose_collection(root, None, None, ["suffix:.pt"], lambda: hosts_of_host_lists([zone]))
    done = ImportResult(name)
    with root.locked(), open_target(root, name, WallClock()) as target:
        import_hosts(target, [zone], done)
        import_urls(target, [urls], ImportResult(name))
    assert (done.urls_new, done.refused) == (3, 2)
    with Lookup(root, name) as lookup:
        entry = lookup.find("https://www.exemplo.pt/") or lookup.find("http://www.exemplo.pt/")
        assert entry is not None
        assert (entry.found_by, entry.depth, entry.state) == (BY_LIST, 0, "queued")
    with open_source(root, name) as source:
        servers = coverage(source).servers
    assert (servers.by_links, servers.by_lists) == (0, 4)
