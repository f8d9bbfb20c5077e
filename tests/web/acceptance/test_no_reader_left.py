"""Every page of the interface leaves the files it has read: a reader in the middle of a query lets logs grow."""

from __future__ import annotations

from teia.web.access.roles import Role
from tests.readers import is_read, without_garbage_collection
from tests.web.test_browser import Live

from .demo import counted
from .test_every_page import addresses


def test_no_page_leaves_a_reader_behind(demo: Live) -> None:
    files = sorted(demo.web.installation.root.path.glob("*/cells/*/frontier.sqlite"))
    assert files
    client = demo.web.client(Role.ADMIN)
    with without_garbage_collection():
        for address in addresses(demo):
            counted(client, address)
            assert [path for path in files if is_read(path)] == [], address
