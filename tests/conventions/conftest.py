"""What the tests of conventions share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import tree


@pytest.fixture(scope="module", autouse=True)
def _forget_the_tree() -> Iterator[None]:
    """Millions of nodes: whoever runs after these tests would wait while the collector of garbage walks over them."""
    yield
    tree.modules.cache_clear()
