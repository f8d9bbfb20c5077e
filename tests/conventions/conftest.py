"""What the tests of conventions share."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from . import tree


@pytest.fixture(scope="module", autouse=True)
def _forget_the_tree() -> Iterator[None]:
    """Millions of nodes, and no garbage: its collector would walk over them again and again, here and thereafter."""
    gc.disable()
    yield
    tree.modules.cache_clear()
    gc.enable()
