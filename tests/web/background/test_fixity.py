"""A server compares the archives of collections that nobody crawls."""

from __future__ import annotations

from pathlib import Path

import pytest

from teia.clock import WallClock
from teia.store.fixity import read_fixity
from teia.store.root import open_root
from teia.web.background.fixity import FixityRunner
from tests.store.signed_archives import change_byte, signed_archive


@pytest.mark.heavy
def test_the_due_files_of_a_collection_are_compared_and_damage_is_found(tmp_path: Path) -> None:
    root = open_root(tmp_path / "data", create=True)
    root.create_collection("main", '[archive]\nfixity_days = 30\n[collection]\nname = "main"\n', 1)
    made = signed_archive(root.path)
    change_byte(made.files[0], 900)
    runner = FixityRunner(root, WallClock())
    runner.start()
    runner.stop()
    runner._ending.clear()
    assert runner.check("main")
    assert not runner.check("main"), "once a day"
    assert "signed" in read_fixity(made.collection).files[made.name(0)].why
